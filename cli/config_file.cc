// SPDX-License-Identifier: Apache-2.0
#include "config_file.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <sstream>
#include <toml++/toml.h>

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
Status apply_value(const std::string& path, CLI::App& command, const std::string& key,
                   const toml::node& node) {
  CLI::Option* option = command.get_option_no_throw("--" + key);
  if (option == nullptr || key == "config" || key == "help") {
    return at(path, node, "'" + key + "' is not an option of " + command.get_name());
  }
  const std::optional<std::string> text = as_text(node);
  if (!text) return at(path, node, "'" + key + "' takes a single value");
  if (option->count() > 0) return Done{};
  try {
    option->add_result(*text);
    option->run_callback();
  } catch (const CLI::Error& error) {
    return at(path, node, error.what());
  }
  return Done{};
}

// A table such as [set] is an option that takes name=value, several times.
Status apply_settings(const std::string& path, CLI::App& command, const std::string& name,
                      const toml::table& settings) {
  CLI::Option* option = command.get_option_no_throw("--" + name);
  if (option == nullptr || option->get_type_name() != "NAME=VALUE") {
    return at(path, settings, "'" + name + "' is not a table of " + command.get_name());
  }
  for (const auto& [key, node] : settings) {
    const std::optional<std::string> text = as_text(node);
    if (!text) return at(path, node, "'" + std::string(key) + "' takes a single value");
    option->add_result(std::string(key) + "=" + *text);
  }
  try {
    if (option->count() > 0) option->run_callback();
  } catch (const CLI::Error& error) {
    return at(path, settings, error.what());
  }
  return Done{};
}

}  // namespace

Status apply_config_file(const std::string& path, CLI::App& command) {
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
