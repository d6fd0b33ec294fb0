// SPDX-License-Identifier: Apache-2.0
//
// Several runs of one world that differ in their seed only, as one outcome: counts are sums,
// histograms are merged, shares are means, and the differences between the runs say how well each
// figure is known (sim::estimate, as for the seeds of a simulation). Pure functions.
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
  // Half of the 95 % intervals, by the pointer of a figure in the JSON report; none of one run.
  std::vector<sim::Confidence> confidence;
};

// Requires one outcome at least, all of the same world.
Replications replications(std::vector<WorldOutcome> runs);

}  // namespace rubato::fleet
