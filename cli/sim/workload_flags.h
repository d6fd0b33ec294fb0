// SPDX-License-Identifier: Apache-2.0
//
// The options of `rubato sim` that describe the requests and the machine. Main thread, at start.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/common/command_line.h"
#include "cli/sim/sim_flags.h"
#include "workload/traffic_profile.h"

namespace rubato::cli {

// Adds --workload and its kin to `command`; `options` must outlive the parse.
void add_workload_options(CommandLine& command, SimOptions& options);

// After the parse: fills options.setup's workload (except its rate) and costs. Throws for options
// that do not fit.
void finish_workload(SimOptions& options);

// Makes `workload` that of a file if `name` is profile:FILE or trace:FILE; false = it is neither.
// Fails with one line.
Result<bool> use_recorded_workload(const std::string& name, WorkloadSpec& workload);

// Reads the profile that a server wrote with --profile. Fails with one line that names the file
// and, if a key is wrong, the key.
Result<TrafficProfile> read_profile(const std::string& path);

// The named workloads, for --help.
std::string workload_help();

}  // namespace rubato::cli
