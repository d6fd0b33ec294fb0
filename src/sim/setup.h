// SPDX-License-Identifier: Apache-2.0
//
// Setup: everything one simulated run depends on, beside the policy and its settings. The same
// Setup, policy and settings give the same result, to the bit, on every platform. A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "overload/limiter.h"
#include "overload/refusal_rule.h"
#include "sched/classify.h"
#include "sim/costs.h"
#include "sim/elastic.h"
#include "workload/source.h"

namespace rubato::sim {

// The streams of random numbers that a run's seed makes: `seed ^ kHostStream` is what policies draw
// from.
inline constexpr uint64_t kNicStream = 0x9e3779b97f4a7c15u;
inline constexpr uint64_t kHostStream = 0xd1b54a32d192ed03u;
inline constexpr uint64_t kEngineStream = 0x8cb92ba72f3d8dd7u;
inline constexpr uint64_t kLimiterStream = 0xa24baed4963ee407u;

using SimLimiter = overload::Limiter<overload::OneThread>;

struct Setup {
  static constexpr double kLeastSpeed = 0.1;

  uint32_t workers = 16;     // 1 .. limits::kSimulatedWorkers
  // Of each worker against the fastest, kLeastSpeed to 1; empty = all are equal. Goes with neither
  // hyperthreads, stalls, locks nor an elastic setup.
  std::vector<double> worker_speeds;
  Costs costs;
  WorkloadSpec workload;     // types, arrivals, flows, phases (workload/source.h)
  uint64_t requests = 1'000'000;
  uint64_t seed = 1;
  double warmup = 0.1;       // share of the run's time whose arrivals are not measured
  Classify classify = Classify::kAge;
  bool tells_sizes = false;  // requests carry the time that they take, however they are classified
  Nanos long_over = Nanos::micros(10);  // types with a mean service of this or more are long
  std::optional<overload::RefusalSettings> refusal_rule;  // none = what fits the queues is served
  std::optional<overload::LimiterSettings> limiter;  // in place of it
  std::optional<ElasticSetup> elastic;  // clients with sessions, and cores that come and go
};

}  // namespace rubato::sim
