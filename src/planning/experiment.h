// SPDX-License-Identifier: Apache-2.0
//
// Experiment: what is simulated, for which candidates, how often, and what it is held to. A plain
// value; pure functions, safe on every thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "planning/candidates.h"
#include "planning/precision.h"
#include "planning/slo.h"
#include "sim/setup.h"

namespace rubato::planning {

// When a request is late: after so many mean services, or else after a time.
struct OutcomesLimit {
  double services = 0;
  Nanos time;
  bool given() const { return services > 0 || time > Nanos(); }
};

struct Experiment {
  static constexpr double kDefaultLoad = 0.7;

  sim::Setup setup;  // of the first run, but for its rate
  std::vector<Candidate> candidates;

  // One run per load, candidate and seed. A rate, when positive, replaces the loads.
  std::vector<double> loads = {kDefaultLoad};
  double rate = 0;
  uint32_t seeds = 1;    // from the setup's on
  uint32_t threads = 1;  // runs at the same time; no figure depends on it

  // If given, a run has only as many of the setup's requests as it needs to know that.
  Precision until;

  Slo slo;
  double max_load = 1;      // of find_max
  double precision = 0.01;  // likewise: its step
  OutcomesLimit outcomes;   // if given, every run is also simulated without moving requests
  Nanos over_time;          // length of the windows of the reports' timelines; 0 = they have none

  std::vector<std::pair<std::string, std::string>> notes;  // for the settings of the reports
};

double capacity_rps(const Experiment& experiment);  // of all workers, in requests per second
sim::Setup setup_at(const Experiment& experiment, double load, uint32_t seed_index);

}  // namespace rubato::planning
