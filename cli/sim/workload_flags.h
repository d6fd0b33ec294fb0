// SPDX-License-Identifier: Apache-2.0
//
// The options of `rubato sim` that say what requests come, and what machine they meet. Main thread,
// at start.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "cli/common/command_line.h"
#include "cli/sim/sim_flags.h"
#include "workload/traffic_profile.h"

namespace rubato::cli {

// Adds --workload and its kin to `command`; `options` must outlive the parse.
void add_workload_options(CommandLine& command, SimOptions& options);

// After the parse: fills options.setup's workload (but for its rate) and costs. Throws what does
// not fit.
void finish_workload(SimOptions& options);

// The FILE of a workload `profile:FILE`.
std::optional<std::string> profile_file(const std::string& workload);

// What a server wrote with --profile. Fails with one line that names the file and, where that is
// what is wrong, the key.
Result<TrafficProfile> read_profile(const std::string& path);

// The named workloads, for --help.
std::string workload_help();

}  // namespace rubato::cli
