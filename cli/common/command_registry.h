// SPDX-License-Identifier: Apache-2.0
//
// Subcommands of the one binary. A subcommand is a .cc file that registers itself at start-up:
//
//   void add_spin(CommandLine& command);
//   const Command kSpin({"serve", "spin", "Synthetic server", add_spin});
//
// The function declares the options of the command and its action, which does the work and returns
// the exit status. Registration happens before main, on one thread.
#pragma once

#include <vector>

#include "cli/common/command_line.h"

namespace rubato::cli {

class Command {
 public:
  // All pointers must live as long as the program.
  explicit Command(const CommandSpec& spec);

  // Every registered command, sorted by name.
  static std::vector<CommandSpec> all();

 private:
  CommandSpec spec_;
  Command* next_;
};

// Prints "rubato: MESSAGE" on stderr and returns kFailed.
int fail(const char* message);

// `git describe` of the tree this was built from, or the project's version.
const char* version();

}  // namespace rubato::cli
