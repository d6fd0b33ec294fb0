// SPDX-License-Identifier: Apache-2.0
//
// Several runs of one world that differ in their seed only, as one outcome: counts are sums,
// histograms are merged, shares are means, and the differences between the runs say how well each
// figure is known (sim::estimate, as for the seeds of a simulation); of one run those between its
// batches. The verdict is the worst of all; batches and start-up are the first run's. Pure
// functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fleet/world.h"
#include "sim/report.h"

namespace rubato::fleet {

struct Replications {
  WorldOutcome pooled;
  uint32_t seeds = 0;
  // Half of the 95 % intervals, by the pointer of a figure in the JSON report; infinite where the
  // runs do not tell, as of latencies of overload, which grow with the length. None of a run that
  // was stopped in the warm-up.
  std::vector<sim::Confidence> confidence;
};

// Requires one outcome at least, all of the same world.
Replications replications(const WorldSpec& spec, std::vector<WorldOutcome> runs);

}  // namespace rubato::fleet
