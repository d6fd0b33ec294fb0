// SPDX-License-Identifier: Apache-2.0
//
// `rubato completion SHELL`: the script by which a shell completes commands, options and values,
// made from what the commands declare.
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli/common/command_registry.h"

namespace rubato::cli {
namespace {

std::string full_name(const CommandSpec& spec) {
  return std::string(spec.group) + (*spec.group == '\0' ? "" : " ") + spec.name;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// The words that begin a command: names of groups, and of commands outside of them.
std::vector<std::string> first_words() {
  std::set<std::string> words;
  for (const CommandSpec& spec : Command::all()) {
    words.insert(*spec.group == '\0' ? spec.name : spec.group);
  }
  return {words.begin(), words.end()};
}

std::vector<std::string> second_words(const std::string& group) {
  std::vector<std::string> words;
  for (const CommandSpec& spec : Command::all()) {
    if (spec.group == group) words.emplace_back(spec.name);
  }
  return words;
}

// Calls visit(full name, command) with each command as it is declared.
template <class Visit>
void for_each_command(Visit&& visit) {
  for (const CommandSpec& spec : Command::all()) {
    LooseCommand command(spec.name);
    spec.declare(command.line());
    visit(full_name(spec), command.line(), spec);
  }
}

std::string values_in_bash() {
  std::string text;
  for_each_command([&](const std::string& name, const CommandLine& command, const CommandSpec&) {
    for (const Option& option : command.options()) {
      const std::vector<std::string> choices = option.choices();
      if (!choices.empty()) {
        text += "    '" + name + " --" + option.name() + "') words='" + joined(choices) + "' ;;\n";
      } else if (!option.is_flag() && !option.name().empty()) {
        text += "    '" + name + " --" + option.name() + "') files=1 ;;\n";
      }
    }
  });
  return text;
}

std::string options_in_bash() {
  std::string text;
  for_each_command([&](const std::string& name, const CommandLine& command, const CommandSpec&) {
    text += "    '" + name + "') words='--help";
    for (const Option& option : command.options()) {
      if (!option.name().empty()) text += " --" + option.name();
    }
    text += "' ;;\n";
  });
  return text;
}

std::string bash() {
  std::string groups;
  std::string members;
  for (const std::string& word : first_words()) {
    const std::vector<std::string> second = second_words(word);
    if (second.empty()) continue;
    groups += (groups.empty() ? "" : "|") + word;
    members += "    '" + word + "') words='" + joined(second) + "' ;;\n";
  }
  return "_rubato() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  local command=${COMP_WORDS[1]} words='' files=0 depth=1\n"
         "  case $command in\n"
         "    " + groups + ") [ \"$COMP_CWORD\" -gt 2 ] && command+=\" ${COMP_WORDS[2]}\"\n"
         "      depth=2 ;;\n"
         "  esac\n"
         "  case \"$command $before\" in\n" + values_in_bash() +
         "    *) [ \"$COMP_CWORD\" -le 1 ] && words='" + joined(first_words()) + "' ;;\n"
         "  esac\n"
         "  if [ -z \"$words\" ] && [ \"$files\" = 0 ]; then case $command in\n" +
         members + options_in_bash() + "  esac; fi\n"
         "  [ \"$files\" = 1 ] && COMPREPLY=($(compgen -f -- \"$word\")) && return\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "}\n"
         "complete -F _rubato rubato\n";
}

std::string zsh() {
  return "#compdef rubato\nautoload -U +X bashcompinit && bashcompinit\n" + bash();
}

std::string quoted_in_fish(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted + "'";
}

std::string fish() {
  std::string text = "complete -c rubato -f\n";
  for (const std::string& word : first_words()) {
    text += "complete -c rubato -n __fish_use_subcommand -a " + word + "\n";
    const std::vector<std::string> second = second_words(word);
    if (second.empty()) continue;
    const std::string all = joined(second);
    text += "complete -c rubato -n '__fish_seen_subcommand_from " + word +
            "; and not __fish_seen_subcommand_from " + all + "' -a '" + all + "'\n";
  }
  for_each_command([&](const std::string&, const CommandLine& command, const CommandSpec& spec) {
    std::string when = std::string("__fish_seen_subcommand_from ") + spec.name;
    if (*spec.group != '\0') when += std::string("; and __fish_seen_subcommand_from ") + spec.group;
    for (const Option& option : command.options()) {
      if (option.name().empty()) continue;
      const std::vector<std::string> choices = option.choices();
      text += "complete -c rubato -n '" + when + "' -l " + option.name() +
              (option.is_flag()    ? ""
               : choices.empty() ? " -r -F"
                                 : " -x -a '" + joined(choices) + "'") +
              " -d " + quoted_in_fish(option.help()) + "\n";
    }
  });
  return text;
}

void add_completion(CommandLine& command) {
  auto shell = std::make_shared<std::string>("bash");
  command.add_choice("shell", *shell, {"bash", "zsh", "fish"}, "The shell that reads the script");
  command.action([shell] {
    const std::string text = *shell == "bash" ? bash() : *shell == "zsh" ? zsh() : fish();
    std::fputs(text.c_str(), stdout);
    return kDone;
  });
}

const Command kCompletion({"", "completion", "Print a script by which a shell completes commands",
                           add_completion});

}  // namespace
}  // namespace rubato::cli
