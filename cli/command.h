// SPDX-License-Identifier: Apache-2.0
//
// Subcommands of the one binary. A subcommand is one .cc file of this folder that registers itself
// at start-up; CMakeLists.txt takes every .cc there is, so adding one touches no other file:
//
//   void add_spin(CLI::App& parent, int& status);
//   const rubato::cli::Command kSpin("serve", "spin", add_spin);
//
// The function adds its subcommand to `parent` and gives it a callback that does the work and sets
// `status` to the exit status (0 done, 1 the run failed). Bad values throw CLI::ValidationError,
// best through options.h. Registration happens before main, on one thread.
#pragma once

namespace CLI {
class App;
}

namespace rubato::cli {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kBadArguments = 2;

class Command {
 public:
  using Adder = void (*)(CLI::App& parent, int& status);

  // `group` is "" for `rubato NAME`, or the parent as in `rubato serve NAME`. All pointers must
  // live as long as the program.
  Command(const char* group, const char* name, Adder add);

  const char* group() const { return group_; }
  const char* name() const { return name_; }

  // Adds every registered command, sorted by name, to `root`.
  static void add_all(CLI::App& root, int& status);

 private:
  const char* group_;
  const char* name_;
  Adder add_;
  Command* next_;
};

// Prints "rubato: MESSAGE" on stderr and returns kFailed.
int fail(const char* message);

// `git describe` of the tree this was built from, or the project's version.
const char* version();

}  // namespace rubato::cli
