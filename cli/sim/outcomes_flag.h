// SPDX-License-Identifier: Apache-2.0
//
// The option --outcomes of `rubato sim`: the benefit of moving requests between groups
// (sim/outcomes.h). Main thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/common/command_line.h"
#include "cli/sim/sim_flags.h"
#include "sim/report.h"

namespace rubato::cli {

void add_outcomes_option(CommandLine& command, SimOptions& options);

// Throws for policies that move no request and for options that do not fit. Requires candidates.
void check_outcomes(const SimOptions& options);

// A line per report that has outcomes, which names its policy and load if there are several
// reports; and the value of the key "outcomes".
std::string outcomes_text(const std::vector<sim::SimReport>& reports);
std::string outcomes_json(const sim::MoveOutcomes& moves);

}  // namespace rubato::cli
