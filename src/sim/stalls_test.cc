// SPDX-License-Identifier: Apache-2.0
//
// Stalls of the machine in a simulated run. sim/conformance_test.cc has the request-by-request
// comparison with a plain recursion.
#include "sim/stalls.h"

#include <gtest/gtest.h>

#include <numeric>

#include "policy/cfcfs.h"
#include "policy/fcfs.h"
#include "policy/steal.h"
#include "policy/synergy.h"
#include "sim/cost_file.h"
#include "sim/testing/digest.h"
#include "sim/testing/runs.h"
#include "sim/testing/scripted.h"

namespace rubato::sim {
namespace {

Costs::Stalls stalls(Nanos every, Nanos length, StallsHit hits = StallsHit::kCore) {
  return {every, length, StallLengths::kConstant, hits};
}

TEST(Stalls, come_as_often_to_each_core_as_was_said) {
  constexpr uint32_t kCores = 4;
  constexpr int kDrawn = 200'000;
  Stalls source(stalls(Nanos::millis(1), Nanos::micros(7)), kCores, 5);
  ASSERT_TRUE(source.any());
  std::vector<int> hits(kCores);
  Instant last;
  for (int i = 0; i < kDrawn; ++i) {
    const Stall stall = source.next();
    ASSERT_GE(stall.at, last);
    ASSERT_EQ(stall.length, Nanos::micros(7));
    last = stall.at;
    ++hits[stall.core];
  }
  const double expected_ms = kDrawn / double{kCores};
  EXPECT_NEAR(static_cast<double>(last.ns()) / 1e6 / expected_ms, 1, 0.01);
  for (const int of_core : hits) EXPECT_NEAR(of_core / expected_ms, 1, 0.02);
}

TEST(Stalls, lengths_may_be_exponential) {
  Costs::Stalls settings = stalls(Nanos::millis(1), Nanos::micros(100));
  settings.lengths = StallLengths::kExponential;
  Stalls source(settings, 1, 5);
  double sum = 0, squares = 0;
  constexpr int kDrawn = 100'000;
  for (int i = 0; i < kDrawn; ++i) {
    const double us = source.next().length.micros();
    sum += us / kDrawn;
    squares += us * us / kDrawn;
  }
  EXPECT_NEAR(sum, 100, 2);
  EXPECT_NEAR(squares / (sum * sum), 2, 0.1);
}

// Of the script's requests the first, at 0, is there only to begin it; the others are laid around
// the first stall that the seed gives.
TEST(Stalls, who_runs_ends_later_and_who_comes_waits_for_the_end) {
  sim::Setup probe = scripted(1, {{0, 1}});
  probe.costs.stalls = stalls(Nanos::millis(50), Nanos::micros(10));
  const int64_t at = Stalls(probe.costs.stalls, 1, probe.seed).next().at.ns();
  ASSERT_GT(at, 100'000);
  sim::Setup setup = scripted(1, {{0, 1'000},
                                  {at - 3'000, 5'000},     // 2 us of it are left at the stall
                                  {at + 1'000, 1'000},     // behind it
                                  {at + 40'000, 1'000}});  // when all is over
  setup.costs.stalls = probe.costs.stalls;
  Outcome outcome = run<Fcfs>(setup);
  EXPECT_EQ(latency_of_shot(outcome, 1), 15'000);
  EXPECT_EQ(latency_of_shot(outcome, 2), 12'000);
  EXPECT_EQ(latency_of_shot(outcome, 3), 1'000);
  EXPECT_EQ(std::llround(outcome.stalled_share *
                         static_cast<double>(outcome.simulated.count())), 10'000);

  setup = scripted(1, {{0, 1'000}, {at + 4'000, 1'000}, {at + 40'000, 1'000}});
  setup.costs.stalls = probe.costs.stalls;
  outcome = run<Fcfs>(setup);  // the core was idle
  EXPECT_EQ(latency_of_shot(outcome, 0), 1'000);
  EXPECT_EQ(latency_of_shot(outcome, 1), 7'000);
  EXPECT_NEAR(outcome.worker_busy[0] * static_cast<double>(outcome.simulated.count()), 3'000, 1);
}

TEST(Stalls, others_take_what_waits_at_a_stalled_core_unless_all_are) {
  for (const auto hits : {StallsHit::kCore, StallsHit::kMachine}) {
    sim::Setup setup = scripted(2, {{0, 1}});
    setup.costs.stalls = stalls(Nanos::millis(50), Nanos::micros(10), hits);
    const Stall first = Stalls(setup.costs.stalls, 2, setup.seed).next();
    const int64_t at = first.at.ns();
    const Costs costs = setup.costs;
    // One for each inbox, and one that keeps the run going.
    setup = scripted(
        2, {{0, 1'000}, {at + 1'000, 1'000}, {at + 1'000, 1'000}, {at + 40'000, 1'000}});
    setup.costs.stalls = costs.stalls;
    const Outcome outcome = run<Steal>(setup);
    const int64_t slower = std::max(latency_of_shot(outcome, 1), latency_of_shot(outcome, 2));
    EXPECT_EQ(slower, hits == StallsHit::kCore ? 2'000 : 10'000);
  }
}

TEST(Stalls, take_their_share_of_the_time) {
  for (const auto hits : {StallsHit::kCore, StallsHit::kMachine}) {
    sim::Setup setup = ideal(8, "exp-1", 0.7, 400'000);
    setup.costs.stalls = stalls(Nanos::micros(200), Nanos::micros(20), hits);
    const Outcome outcome = run<Cfcfs>(setup);
    EXPECT_NEAR(outcome.stalled_share, 0.1, 0.01);
    EXPECT_NEAR(outcome.useful_share, 0.7, 0.01);
    const double busy = std::accumulate(outcome.worker_busy.begin(), outcome.worker_busy.end(), 0.);
    EXPECT_NEAR(busy / 8, outcome.busy_share, 1e-9);
  }
}

TEST(Stalls, a_run_with_none_is_one_without) {
  sim::Setup setup = ideal(4, "extreme-bimodal", 0.7, 20'000);
  const auto latencies = [&] {
    const Outcome outcome = run<Synergy>(setup);
    Digest digest;
    for (const TypeOutcome& type : outcome.types) digest.add(type.latency);
    digest.add(outcome.simulated);
    return digest.value();
  };
  const uint64_t without = latencies();
  setup.costs.stalls = stalls(Nanos::seconds(3600), Nanos::micros(1));
  EXPECT_EQ(latencies(), without);
  setup.costs.stalls = stalls(Nanos::millis(1), Nanos::micros(50));
  EXPECT_NE(latencies(), without);
}

Outcome elastic(const std::string& cores, Costs::Stalls costs, uint64_t requests = 200'000) {
  sim::Setup setup;
  setup.classify = Classify::kFeedback;
  setup.workers = 16;
  setup.costs = load_costs("coresync-testbed").value();
  setup.costs.stalls = costs;
  setup.workload.mixes.push_back(parse_mix("exp-10").value());
  setup.workload.rate = 0.5 * 1.2e6;
  setup.workload.flows.count = 100;
  setup.requests = requests;
  setup.elastic.emplace();
  setup.elastic->cores = cores;
  return simulate("steal", {}, setup).value();
}

// A machine that stands still for longer than the target delay shrinks the pool (CoreSync III-C);
// every request is answered all the same, and cores that park while others are held come back.
TEST(Stalls, credits_shrink_when_the_machine_stands_still) {
  const Outcome quiet = elastic("static", {});
  const Costs::Stalls settings =
      stalls(Nanos::millis(10), Nanos::micros(500), StallsHit::kMachine);
  const Outcome stalled = elastic("static", settings);
  EXPECT_LT(quiet.elastic->max_delay_us, 80);
  EXPECT_GT(stalled.elastic->max_delay_us, 300);
  EXPECT_LT(stalled.elastic->credits, 0.8 * quiet.elastic->credits);
  EXPECT_NEAR(stalled.stalled_share, 0.05, 0.02);
}

TEST(Stalls, every_allocator_answers_every_request) {
  for (const char* cores :
       {"static", "reactive", "caladan", "util-range", "delay-range", "coresync"}) {
    for (const auto hits : {StallsHit::kCore, StallsHit::kMachine}) {
      const Outcome outcome = elastic(cores, stalls(Nanos::millis(2), Nanos::micros(200), hits),
                                      60'000);
      const uint64_t ended = outcome.types[0].latency.count() + outcome.types[0].refused +
                       outcome.types[0].lost + outcome.elastic->unsent[0];
      EXPECT_EQ(ended, outcome.measured) << cores;
    }
  }
}

}  // namespace
}  // namespace rubato::sim
