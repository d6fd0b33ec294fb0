// SPDX-License-Identifier: Apache-2.0
//
// `rubato sim --find-max`: the highest load that meets an SLO, for each policy. Every seed is
// bisected on its own, so that the loads of the seeds are independent samples of it. Called from
// the main thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/sim_options.h"
#include "sim/report.h"

namespace rubato::cli {

struct MaxLoad {
  Contender contender;
  std::vector<double> loads;  // of each seed; 0 = missed at the least load, which is one step
  sim::Estimate load;         // of them
  uint32_t at_most = 0;       // seeds that met the SLO at SimOptions::max_load
  uint64_t runs = 0;
  uint64_t requests = 0, events = 0;  // of all runs
  double wall_s = 0;
  sim::SimReport last;        // one of the runs; what does not depend on the load is of interest
};

// One per contender, in order. When `stop` becomes true, those that are not complete are left out.
// What comes back does not depend on the number of threads. Fails with the line of the first run
// that did. Requires options of --find-max.
Result<std::vector<MaxLoad>> find_max(const SimOptions& options, bool progress,
                                      const std::atomic<bool>& stop);

// The table for people and the object `rubato.max/1`.
std::string max_table(const SimOptions& options, const std::vector<MaxLoad>& results);
std::string max_json(const SimOptions& options, const std::vector<MaxLoad>& results,
                     const std::string& version);

}  // namespace rubato::cli
