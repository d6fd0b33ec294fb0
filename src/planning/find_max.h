// SPDX-License-Identifier: Apache-2.0
//
// The highest load that meets an SLO, for each candidate. Every seed is searched on its own, so
// that the loads of the seeds are independent samples of it. Called from one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "planning/experiment.h"
#include "sim/report.h"

namespace rubato::planning {

struct MaxLoad {
  Candidate candidate;
  std::vector<double> loads;  // of each seed; 0 = missed at the least load, which is one step
  sim::Estimate load;         // of them
  uint32_t at_most = 0;       // seeds that met the SLO at Experiment::max_load
  uint64_t runs = 0;
  uint64_t requests = 0, events = 0;  // of all runs
  double wall_s = 0;
  sim::SimReport last;        // one of the runs; what does not depend on the load is of interest
};

// One per candidate, in order. When `stop` becomes true, those that are not complete are left out.
// What comes back does not depend on the number of threads. Fails with the line of the first run
// that did. `show_progress` is called now and then with the share that is done, on this thread.
// Requires an SLO.
Result<std::vector<MaxLoad>> find_max(const Experiment& experiment, const std::atomic<bool>& stop,
                                      const std::function<void(double)>& show_progress);

}  // namespace rubato::planning
