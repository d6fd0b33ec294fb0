// SPDX-License-Identifier: Apache-2.0
#include "planning/experiment.h"

namespace rubato::planning {

double capacity_rps(const Experiment& experiment) {
  const sim::Setup& setup = experiment.setup;
  return setup.workers * 1e9 / mean_service_ns(setup.workload);
}

sim::Setup setup_at(const Experiment& experiment, double load, uint32_t seed_index) {
  sim::Setup setup = experiment.setup;
  setup.workload.rate = experiment.rate > 0 ? experiment.rate : load * capacity_rps(experiment);
  setup.seed += seed_index;
  return setup;
}

}  // namespace rubato::planning
