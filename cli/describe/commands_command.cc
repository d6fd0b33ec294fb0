// SPDX-License-Identifier: Apache-2.0
//
// rubato commands: the commands of `serve kv` as a table, from the server's own.
#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "cli/common/command_registry.h"
#include "kv_server/commands/table.h"
#include "kv_server/text/words.h"

namespace rubato::cli {
namespace {

std::string as_markdown(const kv::CommandTable& table) {
  std::string text = "| command | since Redis | what it does |\n|---|---|---|\n";
  for (uint32_t number = 1; number < table.size(); ++number) {
    if (table.is_container(number) || table[number].name == "help") continue;
    std::string name = kv::upper_case(table.full_name(number));
    if (const size_t bar = name.find('|'); bar != std::string::npos) name[bar] = ' ';
    text += fmt::format("| `{}` | {} | {} |\n", name, table[number].since, table[number].summary);
  }
  return text;
}

void add_commands(CommandLine& command) {
  command.action([] {
    std::fputs(as_markdown(kv::command_table()).c_str(), stdout);
    return kDone;
  });
}

const Command kCommands({"", "commands", "List the commands of the key-value server as a table",
                         add_commands});

}  // namespace
}  // namespace rubato::cli
