// SPDX-License-Identifier: Apache-2.0
//
// Reloader: loads the options of a running server again, from the command line as it was, the
// environment and the file as it is now, and puts the changes in force that can be without a
// restart. The log tells what became of each change. Made before the server serves; then for one
// thread at a time.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log_options.h"
#include "base/result.h"
#include "cli/common/command_line.h"

namespace rubato::cli {

class ServeProgram;

// The options that the command line gave, with their values.
using GivenOptions = std::vector<std::pair<std::string, std::vector<std::string>>>;
GivenOptions given_options(const CommandLine& command);

class Reloader {
 public:
  // Puts one option in force, as the program that it is given has it. Fails with one line.
  using Apply = std::function<Status(const ServeProgram& loaded)>;

  // `command` and `program` as they are now in force; `program` outlives this.
  Reloader(const CommandLine& command, GivenOptions given, const ServeProgram& program);

  // The option ("log-level") can be changed while the server runs.
  void can_apply(const std::string& option, Apply apply) { live_[option] = std::move(apply); }

  // The same for options that go together: `apply` gets the names of all that have changed, and
  // puts all of them in force or none.
  using ApplyAll =
      std::function<Status(const ServeProgram& loaded, const std::vector<std::string>& options)>;
  void can_apply_together(const std::vector<std::string>& options, ApplyAll apply);

  // Called at each reload whose options are right, after what has changed is in force.
  void each_time(Apply apply) { always_.push_back(std::move(apply)); }

  // Opens the file of the log anew, and loads the options. If they are wrong, all stays as it is.
  void reload();

 private:
  using Texts = std::map<std::string, std::string>;

  Status load(CommandLine& command, ServeProgram& fresh) const;
  // Each returns how many of the changes are in force now.
  int put_in_force(const Texts& changes, const ServeProgram& loaded);
  int put_together_in_force(const Texts& changes, const ServeProgram& loaded);
  // Logs what became of the change; true = it is in force.
  bool note(const std::string& option, const std::string& text, const Status& applied);

  const GivenOptions given_;
  const ServeProgram& program_;
  Texts in_force_;  // the options and their values
  LogOptions log_;  // likewise
  std::map<std::string, Apply> live_;
  std::set<std::string> together_;
  ApplyAll apply_together_;
  std::vector<Apply> always_;
};

}  // namespace rubato::cli
