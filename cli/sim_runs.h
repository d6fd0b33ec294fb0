// SPDX-License-Identifier: Apache-2.0
//
// Runs every load, policy and seed of `rubato sim` on a few threads and tells how far it is. What
// comes back does not depend on the number of threads or on who was first. Called from the main
// thread.
#pragma once

#include <atomic>
#include <vector>

#include "base/result.h"
#include "cli/sim_options.h"
#include "sim/report.h"

namespace rubato::cli {

// One report per load and contender, in the order of SimOptions::loads and for each load in that of
// SimOptions::contenders; each is the average of its seeds and has the contender's name and
// settings. When `stop` becomes true, runs in progress end early and those to come are left out:
// reports may then be invalid, or missing at the end. `trace` may be null. Shows progress on stderr
// if `progress`. Fails with the line of the first run that did.
Result<std::vector<sim::SimReport>> run_simulations(const SimOptions& options, sim::Trace* trace,
                                                    bool progress,
                                                    const std::atomic<bool>& stop);

}  // namespace rubato::cli
