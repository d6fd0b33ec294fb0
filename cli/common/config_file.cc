// SPDX-License-Identifier: Apache-2.0
#include "cli/common/config_file.h"

#include <fstream>
#include <optional>
#include <sstream>
#include <toml++/toml.h>
#include <vector>

#include "base/toml_guard.h"

namespace rubato::cli {
namespace {

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
  if (!option || key == "config" || key == "help") {
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

}  // namespace

Status apply_config_file(const std::string& path, CommandLine& command) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return Error{path + ": cannot be read"};
  if (const size_t line = line_beyond_toml(text.view()); line != 0) {
    return Error{path + ":" + std::to_string(line) +
                 ": '[' needs a name after it, and a letter beyond "
                 "ASCII stands in quotes, not right behind a backslash, or in a comment"};
  }
  toml::table table;
  try {
    table = toml::parse(text.view(), path);
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
