// SPDX-License-Identifier: Apache-2.0
#include "cli/option_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <utility>

#include "cli/options.h"

namespace rubato::cli {
namespace {

std::string placeholder(const OptionDescription& option) {
  if (option.kind == "time") return "T";
  if (option.kind == "size") return "SIZE";
  if (option.kind.starts_with("whole number")) return "N";
  if (option.kind == "number") return "X";
  if (option.kind != "choice") return "TEXT";
  std::string names;
  for (const OptionChoice& choice : option.choices) {
    names += (names.empty() ? "" : "|") + std::string(choice.name);
  }
  return names;
}

std::string help_of(const OptionDescription& option) {
  std::string text = option.help;
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  for (const OptionChoice& choice : option.choices) {
    text += (&choice == &option.choices.front() ? ": " : ", ") + std::string(choice.name) + " (" +
            choice.help + ")";
  }
  return text;
}

}  // namespace

std::string flag_of(std::string_view option) {
  std::string flag = "--" + std::string(option);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

bool given(const CLI::App& app, const std::string& flag) {
  return app.get_option(flag)->count() > 0;
}

namespace internal {

bool has_flag(const CLI::App& app, const char* option) {
  return app.get_option_no_throw(flag_of(option)) != nullptr;
}

void add_flag(CLI::App& app, const OptionDescription& option, Read read) {
  add_parsed(app, flag_of(option.name), placeholder(option), std::move(read), help_of(option))
      ->default_str(option.default_value);
}

void add_switch(CLI::App& app, const OptionDescription& option, bool& value) {
  const std::string flag = flag_of(option.name);
  app.add_flag(flag + ",!--no-" + flag.substr(2), value, help_of(option));
}

void add_settings(CLI::App& app, const OptionDescription& option, OptionSettings& settings) {
  const std::string flag = flag_of(option.name);
  // All of them at once, and the command line's before the file's: the first of a name counts.
  const auto take = [flag, &settings](const std::vector<std::string>& texts) {
    settings.clear();
    for (auto text = texts.rbegin(); text != texts.rend(); ++text) {
      if (Status read = read_option({}, *text, settings); !read) bad_value(flag, read.error());
    }
  };
  app.add_option_function<std::vector<std::string>>(flag, take,
                                                    help_of(option) + "; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
}

}  // namespace internal
}  // namespace rubato::cli
