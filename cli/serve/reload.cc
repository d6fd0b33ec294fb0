// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/reload.h"

#include <memory>

#include "base/log.h"
#include "cli/serve/serve_program.h"

namespace rubato::cli {
namespace {

// What a log must not tell.
bool is_secret(const std::string& option) { return option == "requirepass"; }

std::string shown(const std::string& value) { return value.empty() ? "none" : value; }

std::map<std::string, std::string> texts_of(const CommandLine& command) {
  std::map<std::string, std::string> texts;
  for (const Option& option : command.options()) {
    std::string& text = texts[option.name()];
    if (!option.takes_settings()) {
      text = option.value();
      continue;
    }
    // The first of a name counts, and the order of the names means nothing.
    std::map<std::string, std::string> settings;
    for (const std::string& value : option.values()) {
      settings.emplace(value.substr(0, value.find('=')), value);
    }
    for (const auto& [_, value] : settings) text += (text.empty() ? "" : ",") + value;
  }
  return texts;
}

}  // namespace

GivenOptions given_options(const CommandLine& command) {
  GivenOptions given;
  for (const Option& option : command.options()) {
    if (option.given()) given.emplace_back(option.name(), option.values());
  }
  return given;
}

Reloader::Reloader(const CommandLine& command, GivenOptions given, const ServeProgram& program)
    : given_(std::move(given)),
      program_(program),
      in_force_(texts_of(command)),
      log_(program.options().log) {
  const auto configure = [this](const ServeProgram& loaded) -> Status {
    log_.level = loaded.options().log.level;
    log_.format = loaded.options().log.format;
    log_configure(log_.level, log_.format);
    return Done{};
  };
  can_apply("log-level", configure);
  can_apply("log-format", configure);
  can_apply("log-file", [this](const ServeProgram& loaded) -> Status {
    const std::string& file = loaded.options().log.file;
    if (file.empty()) return Error{"back to standard error takes a restart"};
    const Status opened = log_open(file);
    if (opened.ok()) log_.file = file;
    return opened;
  });
}

Status Reloader::load(CommandLine& command, ServeProgram& fresh) const {
  fresh.declare(command);
  for (const auto& [option, values] : given_) {
    if (Status taken = command.option("--" + option).take(values); !taken.ok()) return taken;
  }
  return load_options(command, fresh);
}

void Reloader::can_apply_together(const std::vector<std::string>& options, ApplyAll apply) {
  together_.insert(options.begin(), options.end());
  apply_together_ = std::move(apply);
}

bool Reloader::note(const std::string& option, const std::string& text, const Status& applied) {
  std::string& before = in_force_[option];
  const std::string change = is_secret(option)
                                 ? "--" + option + " has changed"
                                 : "--" + option + ": " + shown(text) + " in place of " +
                                       shown(before);
  if (!applied.ok()) {
    log_line(LogLevel::kError, LogEvent::kReload, change + " is not possible: " + applied.error());
    return false;
  }
  log_line(LogLevel::kInfo, LogEvent::kReload, change);
  before = text;
  return true;
}

int Reloader::put_in_force(const Texts& changes, const ServeProgram& loaded) {
  int done = 0;
  for (const auto& [option, text] : changes) {
    if (together_.contains(option)) continue;
    const auto live = live_.find(option);
    if (live != live_.end()) {
      done += note(option, text, live->second(loaded)) ? 1 : 0;
      continue;
    }
    log_line(LogLevel::kWarning, LogEvent::kReload,
             "--" + option + ": " + shown(text) + " in place of " + shown(in_force_[option]) +
                 " takes a restart");
  }
  return done;
}

int Reloader::put_together_in_force(const Texts& changes, const ServeProgram& loaded) {
  std::vector<std::string> options;
  for (const auto& [option, _] : changes) {
    if (together_.contains(option)) options.push_back(option);
  }
  if (options.empty()) return 0;
  const Status applied = apply_together_(loaded, options);
  for (const std::string& option : options) note(option, changes.at(option), applied);
  return applied.ok() ? static_cast<int>(options.size()) : 0;
}

void Reloader::reload() {
  if (!log_.file.empty()) {
    if (Status opened = log_open(log_.file); !opened.ok()) {
      log_line(LogLevel::kError, LogEvent::kReload, "--log-file: " + opened.error());
    }
  }
  LooseCommand command(program_.name());
  const std::unique_ptr<ServeProgram> fresh = program_.another();
  if (Status loaded = load(command.line(), *fresh); !loaded.ok()) {
    log_line(LogLevel::kError, LogEvent::kReload, loaded.error() + "; everything stays as it was");
    return;
  }
  Texts changes;
  for (const auto& [option, text] : texts_of(command.line())) {
    if (text != in_force_[option]) changes[option] = text;
  }
  const int done = put_in_force(changes, *fresh) + put_together_in_force(changes, *fresh);
  const int left = static_cast<int>(changes.size()) - done;
  for (const Apply& apply : always_) {
    if (Status applied = apply(*fresh); !applied.ok()) {
      log_line(LogLevel::kError, LogEvent::kReload, applied.error());
    }
  }
  const std::string& file = fresh->options().config_file;
  log_line(LogLevel::kInfo, LogEvent::kReload,
           file.empty() ? "there is no --config to read again" : "'" + file + "' is read again",
           {{"in_force", done}, {"not_in_force", left}});
}

}  // namespace rubato::cli
