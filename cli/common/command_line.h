// SPDX-License-Identifier: Apache-2.0
//
// The command line as commands declare it: commands, options, flags, and the errors of a parse.
// command_line.cc alone knows the library that parses. Main thread, at start; the values that
// options refer to must live as long as the parse.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rubato::cli {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kBadArguments = 2;

// Bad arguments: ends in exit status 2 and the line "rubato: NAME: MESSAGE".
struct UsageError : std::runtime_error {
  UsageError(const std::string& name, const std::string& message);
};
[[noreturn]] void bad_value(const std::string& name, const std::string& message);

// An option of a command. A handle: copies mean the same option.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  // The texts that --help shows.
  Option& placeholder(const std::string& text);
  Option& default_text(const std::string& text);
  Option& description(const std::string& text);
  // What lists options leaves it out: --help, options(), and so manual pages and completion.
  Option& hidden();

  Option& required();
  Option& excludes(const Option& other);
  Option& needs(const Option& other);
  // May be given several times; each value is parsed when it is read.
  Option& repeatable();
  // Sets `given` when the option is given.
  Option& marks(bool& given);

  // "drain-limit"
  std::string name() const;
  bool given() const;
  // As they were given.
  std::vector<std::string> values() const;
  // The one that counts, or the default; empty = there is none. Of a flag "true" or "false".
  std::string value() const;
  bool is_flag() const;
  // As --help shows them.
  std::string help() const;
  std::string placeholder() const;
  // The values that it takes, where they are few.
  std::vector<std::string> choices() const;
  // NAME=VALUE, several times.
  bool takes_settings() const;
  // Takes the values as if they had been given. Fails with one line.
  Status take(const std::vector<std::string>& values);

 private:
  CLI::Option* option_;
};

// A command, to which options are added. A handle: copies mean the same command.
class CommandLine {
 public:
  // The action leaves its exit status in `status`.
  CommandLine(CLI::App* app, int* status) : app_(app), status_(status) {}

  using Parse = std::function<Status(const std::string& text)>;

  // A text that `parse` takes or refuses with an Error.
  Option add_parsed(const std::string& name, const std::string& placeholder, Parse parse,
                    const std::string& help);
  // NAME=VALUE, several times; `parse` gets all of them at once.
  Option add_settings(const std::string& name,
                      std::function<Status(const std::vector<std::string>&)> parse,
                      const std::string& help);
  // Texts as they are. A text that `value` holds is shown as the default.
  Option add_text(const std::string& name, std::string& value, const std::string& help);
  Option add_texts(const std::string& name, std::vector<std::string>& values,
                   const std::string& help);
  Option add_choice(const std::string& name, std::string& value,
                    const std::vector<std::string>& choices, const std::string& help);
  // The name of a file that exists.
  Option add_existing_file(const std::string& name, std::string& value, const std::string& help);
  // The name of a file that the command writes when it is done, or "-": one that cannot be written
  // is refused before.
  Option add_output(const std::string& name, std::string& value, const std::string& help);
  // Whole numbers of `low` to `high`; for int, uint32_t and int64_t.
  template <class Integer>
  Option add_integer(const std::string& name, Integer& value, int64_t low, int64_t high,
                     const std::string& help);
  // "--name", or "--name,!--no-name".
  Option add_flag(const std::string& names, bool& value, const std::string& help);

  // All but --help and hidden ones, in the order in which they were added.
  std::vector<Option> options() const;
  std::optional<Option> find(const std::string& name) const;
  Option option(const std::string& name) const { return find(name).value(); }
  bool given(const std::string& name) const { return option(name).given(); }

  std::string name() const;
  std::string footer() const;
  void footer(const std::string& text);
  // Does the work, after the parse; returns the exit status.
  void action(std::function<int()> run);

 private:
  CLI::App* app_;
  int* status_;
};

// A command of no program: its options get their values by Option::take.
class LooseCommand {
 public:
  explicit LooseCommand(const std::string& name);
  ~LooseCommand();

  CommandLine& line() { return line_; }

 private:
  std::unique_ptr<CLI::App> app_;
  int status_ = kDone;
  CommandLine line_;
};

// One command and how it is declared.
struct CommandSpec {
  const char* group;  // "" for `rubato NAME`, or the parent as in `rubato serve NAME`
  const char* name;
  const char* description;
  void (*declare)(CommandLine& command);
};
struct CommandGroup {
  const char* name;
  const char* description;
  const char* usual = "";  // its command where a word that is none follows; "" = there is none
};

// Parses the arguments and runs their command. Returns the exit status; explains bad arguments on
// stderr, in one line.
int run_command_line(int argc, char** argv, const std::string& about, const std::string& version,
                     const std::vector<CommandGroup>& groups,
                     const std::vector<CommandSpec>& commands);

}  // namespace rubato::cli
