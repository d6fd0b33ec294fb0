// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

namespace rubato::cli {
namespace {

Command* first_command = nullptr;

struct Group {
  const char* name;
  const char* description;
};
constexpr Group kGroups[] = {{"bench", "Measure what mechanisms cost here"},
                             {"serve", "Run a server"}};

CLI::App& group_of(CLI::App& root, std::string_view name) {
  if (name.empty()) return root;
  for (CLI::App* existing : root.get_subcommands({})) {
    if (existing->get_name() == name) return *existing;
  }
  std::string description;
  for (const Group& group : kGroups) {
    if (group.name == name) description = group.description;
  }
  CLI::App* app = root.add_subcommand(std::string(name), description);
  app->require_subcommand(1);
  return *app;
}

}  // namespace

Command::Command(const char* group, const char* name, Adder add)
    : group_(group), name_(name), add_(add), next_(first_command) {
  first_command = this;
}

void Command::add_all(CLI::App& root, int& status) {
  std::vector<Command*> commands;
  for (Command* c = first_command; c != nullptr; c = c->next_) commands.push_back(c);
  std::sort(commands.begin(), commands.end(), [](const Command* a, const Command* b) {
    return std::string_view(a->name_) < b->name_;
  });
  for (Command* c : commands) c->add_(group_of(root, c->group_), status);
}

int fail(const char* message) {
  std::fprintf(stderr, "rubato: %s\n", message);
  return kFailed;
}

}  // namespace rubato::cli
