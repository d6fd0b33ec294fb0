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

bool Reloader::put_in_force(const std::string& option, const std::string& text,
                            const ServeProgram& loaded) {
  std::string& before = in_force_[option];
  const std::string change = is_secret(option)
                                 ? "--" + option + " has changed"
                                 : "--" + option + ": " + shown(text) + " in place of " +
                                       shown(before);
  const auto live = live_.find(option);
  if (live == live_.end()) {
    log_line(LogLevel::kWarning, LogEvent::kReload, change + " takes a restart");
    return false;
  }
  if (Status applied = live->second(loaded); !applied.ok()) {
    log_line(LogLevel::kError, LogEvent::kReload, change + " is not possible: " + applied.error());
    return false;
  }
  log_line(LogLevel::kInfo, LogEvent::kReload, change);
  before = text;
  return true;
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
  int done = 0;
  int left = 0;
  for (const auto& [option, text] : texts_of(command.line())) {
    if (text == in_force_[option]) continue;
    ++(put_in_force(option, text, *fresh) ? done : left);
  }
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
