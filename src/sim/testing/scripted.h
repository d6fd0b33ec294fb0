// SPDX-License-Identifier: Apache-2.0
//
// For the simulator's tests: recorded requests whose timeline is worked out by hand. Every request
// is of a type of its own, so that its latency is read exactly. Single-threaded.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/setup.h"
#include "sim/simulation.h"

namespace rubato::sim {

constexpr Price price(int64_t ns) { return {Nanos(ns), Nanos(ns)}; }

struct Shot {
  int64_t at;
  int64_t service;
};

// Request i is of type i; types are short unless the test says otherwise. All are of one flow, and
// go to the workers by turns, from worker 1 on.
inline Setup scripted(uint32_t workers, const std::vector<Shot>& shots) {
  Setup setup;
  setup.workers = workers;
  setup.requests = shots.size();
  setup.warmup = 0;
  setup.classify = Classify::kFeedback;
  setup.long_over = Nanos::max();
  std::vector<RequestType> types;
  std::vector<std::string> names;
  std::vector<RecordedRequest> recorded;
  for (const Shot& shot : shots) {
    const auto type = static_cast<uint32_t>(types.size());
    names.push_back("t" + std::to_string(type));
    types.push_back({names.back(), {.mean = Nanos(shot.service)}, 1.0});
    recorded.push_back({.at = Nanos(shot.at), .service = Nanos(shot.service), .type = type});
  }
  setup.workload.mixes.emplace_back("script", types);
  setup.workload.trace = RequestTrace::of(recorded, names).value();
  setup.workload.rate = setup.workload.trace->rate_rps();
  setup.costs.nic.steering = Steering::kRoundRobin;
  return setup;
}

inline int64_t latency_of_shot(const Outcome& outcome, size_t shot) {
  EXPECT_EQ(outcome.types[shot].latency.count(), 1u) << shot;
  return outcome.types[shot].latency.max().count();
}

}  // namespace rubato::sim
