// SPDX-License-Identifier: Apache-2.0
#include "cli/common/environment.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "base/option_text.h"

namespace rubato::cli {
namespace {

constexpr std::string_view kPrefix = "RUBATO_";

std::string option_of(std::string_view variable) {
  std::string name(variable.substr(kPrefix.size()));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return c == '_' ? '-' : static_cast<char>(std::tolower(c));
  });
  return name;
}

std::string variable_of(std::string_view option) {
  std::string name(option);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  return std::string(kPrefix) + name;
}

bool is_variable(const Option& option) {
  return option.name() != "check-config" && option.name() != "print-config";
}

// At commas that another name=value follows.
std::vector<std::string> settings_in(std::string_view text) {
  std::vector<std::string> settings;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, end);
    if (part.find('=') != std::string_view::npos || settings.empty()) {
      settings.emplace_back(part);
    } else {
      settings.back().append(",").append(part);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return settings;
}

Status misspelt(const CommandLine& command, const std::string& variable) {
  std::vector<std::string> names;
  for (const Option& option : command.options()) {
    if (is_variable(option)) names.push_back(option.name());
  }
  std::vector<const char*> candidates;
  for (const std::string& name : names) candidates.push_back(name.c_str());
  const std::string near = closest_name(option_of(variable), candidates);
  if (near.empty()) return Done{};
  return Error{variable + " is not an option of " + command.name() + "; did you mean " +
               variable_of(near) + "?"};
}

}  // namespace

Status apply_environment(CommandLine& command) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (!text.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    const std::string variable(text.substr(0, equals));
    const std::string value(text.substr(equals + 1));
    std::optional<Option> option = command.find("--" + option_of(variable));
    if (!option || variable_of(option->name()) != variable || !is_variable(*option)) {
      if (Status near = misspelt(command, variable); !near.ok()) return near;
      continue;
    }
    if (value.empty()) continue;
    const bool settings = option->takes_settings();
    if (option->given() && !settings) continue;
    const Status taken = option->take(settings ? settings_in(value) : std::vector{value});
    if (!taken.ok()) return Error{variable + ": " + taken.error()};
  }
  return Done{};
}

}  // namespace rubato::cli
