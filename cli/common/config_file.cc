// SPDX-License-Identifier: Apache-2.0
#include "cli/common/config_file.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <sstream>
#include <toml++/toml.h>
#include <vector>

#include "base/toml_guard.h"
#include "cli/common/file_text.h"

namespace rubato::cli {
namespace {

// Those that ask for an action, rather than set something.
bool stands_in_files(const std::string& key) {
  return key != "config" && key != "help" && key != "check-config" && key != "print-config";
}

Error at(const std::string& path, const toml::node& node, const std::string& what) {
  return Error{path + ":" + std::to_string(node.source().begin.line) + ": " + what};
}

// The value as the command line would have it; empty optional for tables and arrays.
std::optional<std::string> as_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (!node.is_value()) return std::nullopt;
  std::ostringstream text;
  node.visit([&text](const auto& value) { text << value; });
  return text.str();
}

// Options given on the command line keep their value.
Status apply_value(const std::string& path, CommandLine& command, const std::string& key,
                   const toml::node& node) {
  std::optional<Option> option = command.find("--" + key);
  if (!option || !stands_in_files(key)) {
    return at(path, node, "'" + key + "' is not an option of " + command.name());
  }
  const std::optional<std::string> text = as_text(node);
  if (!text) return at(path, node, "'" + key + "' takes a single value");
  if (option->given()) return Done{};
  const Status taken = option->take({*text});
  return taken.ok() ? Status(Done{}) : at(path, node, taken.error());
}

// A table such as [set] is an option that takes name=value, several times.
Status apply_settings(const std::string& path, CommandLine& command, const std::string& name,
                      const toml::table& settings) {
  std::optional<Option> option = command.find("--" + name);
  if (!option || !option->takes_settings()) {
    return at(path, settings, "'" + name + "' is not a table of " + command.name());
  }
  std::vector<std::string> values;
  for (const auto& [key, node] : settings) {
    const std::optional<std::string> text = as_text(node);
    if (!text) return at(path, node, "'" + std::string(key) + "' takes a single value");
    values.push_back(std::string(key) + "=" + *text);
  }
  const Status taken = option->take(values);
  return taken.ok() ? Status(Done{}) : at(path, settings, taken.error());
}

bool is_whole_number(const std::string& text) {
  const size_t digits = text.starts_with('-') ? 1 : 0;
  const bool padded = text.size() > digits + 1 && text[digits] == '0';
  return text.size() > digits && text.size() < digits + 18 && !padded &&
         text.find_first_not_of("0123456789", digits) == std::string::npos;
}

std::string literal(const std::string& text) {
  if (is_whole_number(text)) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\u{:04x}", byte);
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

// The settings of an option by name; of the same name the first counts.
std::string table_of(const Option& option) {
  std::map<std::string, std::string> settings;
  for (const std::string& value : option.values()) {
    const size_t end = value.find('=');
    settings.emplace(value.substr(0, end), value.substr(end + 1));
  }
  std::string text = settings.empty() ? "" : "\n[" + option.name() + "]\n";
  for (const auto& [name, value] : settings) text += name + " = " + literal(value) + "\n";
  return text;
}

}  // namespace

std::string config_text(const CommandLine& command) {
  std::string text;
  std::string tables;
  for (const Option& option : command.options()) {
    if (!stands_in_files(option.name())) continue;
    if (option.takes_settings()) {
      tables += table_of(option);
    } else if (const std::string value = option.value(); value.empty()) {
      text += "# " + option.name() + " is not set\n";
    } else {
      text += option.name() + " = " + (option.is_flag() ? value : literal(value)) + "\n";
    }
  }
  return text + tables;
}

Status apply_config_file(const std::string& path, CommandLine& command) {
  const std::optional<std::string> text = file_text(path);
  if (!text) return Error{path + ": cannot be read"};
  if (const size_t line = line_beyond_toml(*text); line != 0) {
    return Error{path + ":" + std::to_string(line) +
                 ": '[' needs a name after it, and a letter beyond "
                 "ASCII stands in quotes, not right behind a backslash, or in a comment"};
  }
  toml::table table;
  try {
    table = toml::parse(*text, path);
  } catch (const toml::parse_error& error) {
    return Error{path + ":" + std::to_string(error.source().begin.line) + ": " +
                 std::string(error.description())};
  }
  for (const auto& [key, node] : table) {
    const std::string name(key);
    Status applied = node.is_table() ? apply_settings(path, command, name, *node.as_table())
                                     : apply_value(path, command, name, node);
    if (!applied.ok()) return applied;
  }
  return Done{};
}

}  // namespace rubato::cli
