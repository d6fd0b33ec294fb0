// SPDX-License-Identifier: Apache-2.0
//
// The options of `rubato serve` for who else has its CPUs: the command that runs on the CPU time
// that the server leaves, and the manager that it shares CPUs by.
// Main thread, at start.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "cli/common/command_line.h"
#include "process/best_effort.h"
#include "runtime/options.h"

namespace rubato::cli {

struct CoresOptions {
  BestEffortOptions best_effort;
  bool no_group = false;
  std::string manager;  // its Unix socket; empty = none
};

void add_best_effort_options(CommandLine& command, CoresOptions& options);

// After the parse. Fails with one line.
Status finish_best_effort_options(const CommandLine& command, const CoresOptions& options,
                                  RuntimeOptions& runtime);

// The best-effort command, not yet begun; null if none was given. Call it before any thread starts.
Result<std::unique_ptr<BestEffort>> prepare_best_effort(const CoresOptions& options);

}  // namespace rubato::cli
