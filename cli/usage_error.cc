// SPDX-License-Identifier: Apache-2.0
#include "cli/usage_error.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

namespace rubato::cli {
namespace {

// Letters added, left out, changed, or swapped with their neighbour.
size_t slips_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> slips(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) slips[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) slips[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = slips[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      slips[i][j] = std::min({slips[i - 1][j] + 1, slips[i][j - 1] + 1, changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        slips[i][j] = std::min(slips[i][j], slips[i - 2][j - 2] + 1);
      }
    }
  }
  return slips[a.size()][b.size()];
}

// "; did you mean X?" where one of `known` is near, else nothing.
std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const size_t most = std::max<size_t>(1, word.size() / 3);
  const std::string* nearest = nullptr;
  size_t fewest = most + 1;
  for (const std::string& name : known) {
    const bool begun = word.size() > 1 && name.starts_with(word);
    const size_t slips = begun ? most : slips_between(word, name);
    if (slips < fewest) {
      nearest = &name;
      fewest = slips;
    }
  }
  return nearest != nullptr ? fmt::format("; did you mean {}?", *nearest) : "";
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options({})) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// "a, b or c"
std::string any_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : " or ";
    text += names[i];
  }
  return text;
}

// Where a command was expected.
std::string not_a_command(const CLI::App& group, const std::vector<std::string>& words) {
  const std::vector<std::string> names = command_names(group);
  const std::string name = full_name(group);
  if (words.empty()) return fmt::format("{} takes {}", name, any_of(names));
  const bool option = words.front().starts_with('-');
  return fmt::format("'{}' is not {} of {}, which takes {}{}", words.front(),
                     option ? "an option" : "a command", name, any_of(names),
                     suggestion(words.front(), option ? option_names(group) : names));
}

std::string not_an_option(const CLI::App& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  if (!word.starts_with('-')) {
    return fmt::format("'{}' is not an argument of {}", word, full_name(command));
  }
  return fmt::format("'{}' is not an option of {}{}", name, full_name(command),
                     suggestion(name, option_names(command)));
}

// CLI11 explains some errors over several lines; ours are one.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return (parent != nullptr ? full_name(*parent) + " " : "") + command.get_name();
}

std::string usage_error(const CLI::App& root, const CLI::ParseError& error) {
  // An option that is misspelt is also one that is missing.
  const bool lacks = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (!lacks && dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) {
    return one_line(error.what());
  }
  const CLI::App* asked = &root;
  while (true) {
    const bool group = !asked->get_subcommands({}).empty();
    const std::vector<std::string> words = asked->remaining();
    const bool last = asked->get_subcommands().empty();
    if (group && (last || !words.empty())) return not_a_command(*asked, words);
    if (!words.empty()) return not_an_option(*asked, words.front());
    if (last) return one_line(error.what());
    asked = asked->get_subcommands().front();
  }
}

}  // namespace rubato::cli
