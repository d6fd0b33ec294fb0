// SPDX-License-Identifier: Apache-2.0
#include "api/figures.h"

namespace rubato::api {

rubato_times times_of(const Histogram& values) {
  return {values.count(),
          values.mean().count(),
          values.percentile(50).count(),
          values.percentile(90).count(),
          values.percentile(99).count(),
          values.percentile(99.9).count(),
          values.max().count()};
}

rubato_stats stats_of(const Runtime& runtime) {
  const RuntimeStats counted = runtime.stats();
  rubato_stats stats{};
  stats.requests = counted.requests;
  stats.refused = counted.refused;
  stats.preemptions = counted.preemptions;
  stats.preemptions_avoided = counted.preemptions_avoided;
  stats.preemptions_denied = counted.preemptions_denied;
  stats.resumed = counted.resumed;
  stats.long_by_feedback = counted.long_by_feedback;
  stats.long_by_age = counted.long_by_age;
  stats.long_learned = counted.long_learned;
  stats.steals = counted.steals;
  stats.stolen = counted.stolen;
  stats.parked = counted.parked;
  stats.busy_ns = counted.busy_ns;
  stats.fibers = counted.fibers;
  stats.stack_high_water_bytes = runtime.stack_high_water_bytes();
  return stats;
}

}  // namespace rubato::api
