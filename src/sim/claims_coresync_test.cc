// SPDX-License-Identifier: Apache-2.0
//
// What CoreSync says of allocators of cores (sections II and IV), in short runs; the figures
// themselves are in docs/REPRODUCTION.md.
#include <gtest/gtest.h>

#include <string>

#include "sim/cost_file.h"
#include "sim/simulation.h"

namespace rubato::sim {
namespace {

struct Found {
  double p99_us = 0;
  double cores = 0;
  double rps = 0;
};

Found find(const std::string& cores, double load, uint32_t sessions = 100, uint32_t credits = 8) {
  sim::Setup setup;
  setup.classify = Classify::kFeedback;
  setup.workers = 16;
  setup.costs = load_costs("coresync-testbed").value();
  setup.workload.mixes.push_back(parse_mix("exp-10").value());
  setup.workload.rate = load * 1.2e6;
  setup.workload.flows.count = sessions;
  setup.requests = 300'000;
  setup.warmup = 0.5;
  setup.elastic.emplace();
  setup.elastic->cores = cores;
  setup.elastic->clients.sessions = sessions;
  setup.elastic->credits.session_limit = credits;
  if (cores == "coresync") {
    setup.elastic->cores_settings = {{"scale_r", "on"}, {"pause", "off"}};
  }
  const Outcome outcome = simulate("steal", {}, setup).value();
  return {outcome.types[0].latency.percentile(99).micros(), outcome.elastic->cores,
          static_cast<double>(outcome.done_in_time) / outcome.measured_time.seconds()};
}

TEST(CoresyncClaims, below_capacity_it_lies_between_the_reactive_and_the_proactive) {  // Fig. 3
  const Found coresync = find("coresync", 0.5), shenango = find("reactive", 0.5);
  const Found caladan = find("caladan", 0.5), range = find("util-range", 0.5);
  EXPECT_LT(coresync.p99_us * 1.1, shenango.p99_us);
  EXPECT_LT(coresync.p99_us, caladan.p99_us);
  EXPECT_LT(coresync.cores * 1.1, range.cores);
  EXPECT_LT(coresync.cores, caladan.cores + 0.5);
}

TEST(CoresyncClaims, that_does_not_depend_on_the_number_of_sessions) {  // Fig. 8
  const Found few = find("coresync", 0.5, 100), many = find("coresync", 0.5, 1000);
  EXPECT_NEAR(many.p99_us / few.p99_us, 1, 0.05);
  EXPECT_NEAR(many.cores / few.cores, 1, 0.05);
}

TEST(CoresyncClaims, polling_for_longer_buys_latency_with_cores) {  // Fig. 1
  Found before{1e9, 0, 0};
  for (const char* poll : {"2us", "10us", "50us"}) {
    sim::Setup setup;
    setup.classify = Classify::kFeedback;
    setup.workers = 16;
    setup.costs = load_costs("coresync-testbed").value();
    setup.workload.mixes.push_back(parse_mix("exp-10").value());
    setup.workload.rate = 0.5 * 1.2e6;
    setup.requests = 200'000;
    setup.elastic.emplace();
    setup.elastic->cores = "caladan";
    setup.elastic->cores_settings = {{"poll", poll}};
    const Outcome outcome = simulate("steal", {}, setup).value();
    const double p99 = outcome.types[0].latency.percentile(99).micros();
    EXPECT_LT(p99, before.p99_us) << poll;
    EXPECT_GT(outcome.elastic->cores, before.cores) << poll;
    before = {p99, outcome.elastic->cores, 0};
  }
}

TEST(CoresyncClaims, beyond_capacity_nobody_parks_while_sessions_are_drained) {  // III-B
  const Found coresync = find("coresync", 1.5, 1000), shenango = find("reactive", 1.5, 1000);
  EXPECT_DOUBLE_EQ(coresync.cores, 16);
  EXPECT_LT(shenango.cores, 15.9);
  EXPECT_NEAR(coresync.rps / shenango.rps, 1, 0.01);  // with other seeds 0.998 to 1.002
}

}  // namespace
}  // namespace rubato::sim
