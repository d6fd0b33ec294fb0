// SPDX-License-Identifier: Apache-2.0
//
// The options of `rubato sim` that say what requests come, and what machine they meet. Main thread,
// at start.
#pragma once

#include <string>

#include "cli/sim_options.h"

namespace rubato::cli {

// Adds --workload and its kin to `app`; `options` must outlive the parse.
void add_workload_options(CLI::App& app, SimOptions& options);

// After the parse: fills options.setup's workload (but for its rate) and costs. Throws what does
// not fit.
void finish_workload(SimOptions& options);

// The named workloads, for --help.
std::string workload_help();

}  // namespace rubato::cli
