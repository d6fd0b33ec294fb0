// SPDX-License-Identifier: Apache-2.0
//
// The options of `rubato sim` for clients with sessions, admission and cores that come and go
// (sim/elastic.h), and the output of such runs. Main thread.
#pragma once

#include <string>

#include "cli/common/command_line.h"
#include "cli/sim/sim_flags.h"
#include "sim/report.h"

namespace rubato::cli {

// Adds --sessions and its kin, beside those that `rubato serve` has as well (sched/options.h).
// `options` must outlive the parse.
void add_elastic_options(CommandLine& command, SimOptions& options);

// After the parse: fills options.setup.elastic if any of these options was given. Throws for
// options that do not fit.
void finish_elastic(SimOptions& options);

// Two lines for people; empty if the run was not of that kind.
std::string elastic_lines(const sim::SimReport& report);

// The object "elastic" of the report's JSON. Requires a report that has it.
std::string elastic_json(const sim::SimReport& report);

}  // namespace rubato::cli
