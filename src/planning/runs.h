// SPDX-License-Identifier: Apache-2.0
//
// Runs every load, candidate and seed of an experiment on a few threads. What comes back does not
// depend on the number of threads or on their order. Called from one thread.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "base/result.h"
#include "metrics/trace.h"
#include "planning/experiment.h"
#include "sim/report.h"

namespace rubato::planning {

// One report per load and candidate, in the order of Experiment::loads and for each load in that of
// Experiment::candidates; each is the average of its seeds and has the candidate's name and
// settings. When `stop` becomes true, runs in progress end early and those to come are left out:
// reports may then be invalid, or missing at the end. `trace` may be null.
// `show_progress` is called now and then with the share that is done, on this thread. Fails with
// the line of the first run that did.
Result<std::vector<sim::SimReport>> run_simulations(
    const Experiment& experiment, Trace* trace, const std::atomic<bool>& stop,
    const std::function<void(double)>& show_progress);

}  // namespace rubato::planning
