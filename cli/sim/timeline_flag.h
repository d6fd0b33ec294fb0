// SPDX-License-Identifier: Apache-2.0
//
// The option --over-time of `rubato sim`: latencies by the time when requests were sent
// (sim/timeline.h). Main thread.
#pragma once

#include <string>
#include <vector>

#include "cli/common/command_line.h"
#include "cli/sim/sim_flags.h"
#include "metrics/hdr_log.h"
#include "metrics/run_report.h"
#include "sim/report.h"
#include "sim/timeline.h"

namespace rubato::cli {

void add_timeline_option(CommandLine& command, SimOptions& options);

// Throws for options that do not fit.
void check_timeline(const SimOptions& options);

// A table per report that has a timeline; the value of the key "over_time"; and an interval for
// each window and type, whose tags begin with `prefix`.
std::string timeline_text(const std::vector<sim::SimReport>& reports);
std::string timeline_json(const sim::Timeline& timeline, const std::vector<TypeReport>& types);
std::vector<HdrInterval> timeline_intervals(const sim::Timeline& timeline,
                                            const std::vector<TypeReport>& types,
                                            const std::string& prefix);

}  // namespace rubato::cli
