// SPDX-License-Identifier: Apache-2.0
#include "sim/explain.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/cost_file.h"

namespace rubato::sim {
namespace {

Setup setup_with(const std::string& costs) {
  Setup setup;
  setup.costs = load_costs(costs).value();
  setup.classify = Classify::kFeedback;
  return setup;
}

bool says(const Setup& setup, const std::string& what) {
  const auto lines = explain(setup);
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(what) != std::string::npos; });
}

TEST(Explain, every_line_is_one_line) {
  for (const BuiltinCosts& builtin : builtin_costs()) {
    const auto lines = explain(setup_with(std::string(builtin.name)));
    EXPECT_GT(lines.size(), 10u);
    for (const std::string& line : lines) {
      EXPECT_FALSE(line.empty());
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    }
  }
}

TEST(Explain, the_ideal_machine_has_no_network_and_no_ring) {
  const auto setup = setup_with("ideal");
  EXPECT_TRUE(says(setup, "there is no network"));
  EXPECT_TRUE(says(setup, "idle workers notice work after 0 ns"));
  EXPECT_FALSE(says(setup, "ring of"));
}

TEST(Explain, sessions_and_cores_are_told_where_there_are_any) {
  sim::Setup setup = setup_with("coresync-testbed");
  EXPECT_FALSE(says(setup, "cores are allocated"));
  setup.elastic.emplace();
  setup.elastic->cores = "coresync";
  EXPECT_TRUE(says(setup, "cores are allocated by 'coresync'; to wake one takes 2200 ns"));
  EXPECT_TRUE(says(setup, "flows of a parked worker go to the next one that is awake"));
  setup.costs.cores.interrupt = Nanos(3400);
  EXPECT_TRUE(says(setup, "a packet of a parked worker's wakes it, and nobody else, in 3400 ns"));
  EXPECT_TRUE(says(setup, "the clients are 100 sessions"));
  EXPECT_TRUE(says(setup, "99 % of round trips take less than 20000 ns"));
}

TEST(Explain, stalls_are_told_where_there_are_any) {
  sim::Setup setup = setup_with("ideal");
  EXPECT_FALSE(says(setup, "stall"));
  EXPECT_TRUE(says(setup, "nothing else runs there"));
  setup.costs.stalls = {.every = Nanos::millis(10), .length = Nanos::micros(100)};
  EXPECT_TRUE(says(setup, "each core stalls every 10000000 ns on average (Poisson), for 100000 ns, "
                          "1 % of the time"));
  EXPECT_TRUE(says(setup, "independent"));
  setup.costs.stalls.hits = StallsHit::kMachine;
  EXPECT_TRUE(says(setup, "the whole machine stalls"));
}

TEST(Explain, critical_sections_and_shared_lines_are_told_where_there_are_any) {
  sim::Setup setup = setup_with("ideal");
  EXPECT_TRUE(says(setup, "a request may be cut anywhere"));
  EXPECT_TRUE(says(setup, "prices do not grow with contention: no lock waits"));
  setup.costs.critical_sections = {.count = 2, .length = Nanos(60)};
  EXPECT_TRUE(says(setup, "a request may be cut but in 2 critical sections of 60 ns"));
  EXPECT_TRUE(says(setup, "no other one waits for them"));
  setup.costs.critical_sections.lock = Lock::kSpin;
  EXPECT_TRUE(says(setup, "waits on its worker"));
  setup.costs.critical_sections.lock = Lock::kYield;
  EXPECT_TRUE(says(setup, "a long one first lets that serve another one"));
  setup.costs.worker.shared_line = Nanos(70);
  EXPECT_TRUE(says(setup, "no lock waits but for the line of a queue that another worker used "
                          "last, which costs a put or take 70 ns more, one worker after the "
                          "other, that of critical sections, no retry"));
}

TEST(Explain, what_is_before_the_workers_is_told) {
  sim::Setup setup = setup_with("ideal");
  EXPECT_TRUE(says(setup, "one of its own, not one of the workers"));
  setup.costs.net_worker = {Nanos(100), 128};
  EXPECT_TRUE(says(setup, "a net worker receives for all, 100 ns per request, and loses what"));
  setup.costs.dispatching.idle = IdleDispatcher::kServes;
  EXPECT_TRUE(says(setup, "the last worker is that dispatcher"));
  EXPECT_FALSE(says(setup, "one of its own, not one of the workers"));
}

TEST(Explain, a_polled_ring_loses_what_it_cannot_hold) {
  EXPECT_TRUE(says(setup_with("synergy-testbed"), "ring of 128 requests"));
  EXPECT_TRUE(says(setup_with("synergy-testbed"), "checks one worker every 15 ns"));
}

TEST(Explain, workers_that_poll_while_busy_and_help_are_told) {
  EXPECT_TRUE(says(setup_with("ideal-polled"), "polls 50000 ns or 32 requests after"));
  EXPECT_TRUE(says(setup_with("ideal-polled"), "has not polled for 100000 ns"));
  EXPECT_FALSE(says(setup_with("sbb-testbed"), "has not polled"));
}

TEST(Explain, own_timers_replace_the_timer_core) {
  EXPECT_TRUE(says(setup_with("sbb-testbed"), "own timer ends its slices"));
  EXPECT_FALSE(says(setup_with("sbb-testbed"), "a timer core"));
}

TEST(Explain, hops_are_named_where_there_is_a_mesh) {
  EXPECT_TRUE(says(setup_with("ac-int"), "3 ns per hop in a mesh of 16 columns"));
  EXPECT_TRUE(says(setup_with("ac-int"), "takes 3 ns per hop of the mesh, however many requests"));
  EXPECT_FALSE(says(setup_with("ideal"), "per hop"));
}

TEST(Explain, managers_and_rules_of_flows_are_told_with_their_prices) {
  EXPECT_TRUE(says(setup_with("ac-rss"), "18 ns per prediction, 2 ns to send a message"));
  EXPECT_TRUE(says(setup_with("ac-rss"), "35 ns to hand a request to a worker"));
  EXPECT_TRUE(says(setup_with("sbb-testbed"), "one rule at a time, 10000 ns each"));
  EXPECT_FALSE(says(setup_with("ideal"), "one rule at a time"));
}

TEST(Explain, the_workload_is_told) {
  auto setup = setup_with("ideal");
  EXPECT_TRUE(says(setup, "Poisson"));
  EXPECT_TRUE(says(setup, "512 flows, each equally likely"));
  setup.workload.arrivals.shape = ArrivalShape::kUniform;
  setup.workload.flows.in_turn = true;
  setup.workload.misclassification.error_rate = 0.05;
  EXPECT_FALSE(says(setup, "Poisson"));
  EXPECT_TRUE(says(setup, "512 flows, by turns"));
  EXPECT_TRUE(says(setup, "takes 5 % of the requests for another type"));
}

TEST(Explain, age_needs_no_announcement) {
  auto setup = setup_with("ideal");
  EXPECT_TRUE(says(setup, "announced as long"));
  setup.classify = Classify::kAge;
  EXPECT_FALSE(says(setup, "announced as long"));
}

}  // namespace
}  // namespace rubato::sim
