// SPDX-License-Identifier: Apache-2.0
#include "cli/common/scheduler_flags.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

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

namespace internal {

void add_flag(CommandLine& command, const OptionDescription& option, Read read) {
  command
      .add_parsed(flag_of(option.name), placeholder(option), std::move(read), help_of(option))
      .default_text(option.default_value);
}

void add_switch(CommandLine& command, const OptionDescription& option, bool& value) {
  const std::string flag = flag_of(option.name);
  command.add_flag(flag + ",!--no-" + flag.substr(2), value, help_of(option));
}

void add_settings(CommandLine& command, const OptionDescription& option,
                  OptionSettings& settings) {
  // All of them at once, and the command line's before the file's: the first of a name counts.
  const auto take = [&settings](const std::vector<std::string>& texts) -> Status {
    settings.clear();
    for (auto text = texts.rbegin(); text != texts.rend(); ++text) {
      if (Status read = read_option({}, *text, settings); !read) return read;
    }
    return Done{};
  };
  command.add_settings(flag_of(option.name), take, help_of(option) + "; may be repeated");
}

}  // namespace internal
}  // namespace rubato::cli
