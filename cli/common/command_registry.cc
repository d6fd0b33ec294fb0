// SPDX-License-Identifier: Apache-2.0
#include "cli/common/command_registry.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

namespace rubato::cli {
namespace {

Command* first_command = nullptr;

}  // namespace

Command::Command(const CommandSpec& spec) : spec_(spec), next_(first_command) {
  first_command = this;
}

std::vector<CommandSpec> Command::all() {
  std::vector<CommandSpec> commands;
  for (const Command* c = first_command; c != nullptr; c = c->next_) commands.push_back(c->spec_);
  std::sort(commands.begin(), commands.end(), [](const CommandSpec& a, const CommandSpec& b) {
    return std::string_view(a.name) < b.name;
  });
  return commands;
}

int fail(const char* message) {
  std::fprintf(stderr, "rubato: %s\n", message);
  return kFailed;
}

}  // namespace rubato::cli
