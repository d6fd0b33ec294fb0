// SPDX-License-Identifier: Apache-2.0
//
// What every simulated run must have in common, whatever the policy and the machine: it agrees with
// plain recursions where those apply, and no request and no service is lost or doubled.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "policy/all.h"
#include "policy/testing/random_settings.h"
#include "policy/testing/replay.h"
#include "policy/testing/seed.h"
#include "sim/testing/runs.h"
#include "sim/testing/slow_models.h"

namespace rubato::sim {
namespace {

std::vector<std::array<int64_t, 2>> buckets_of(const Histogram& histogram) {
  std::vector<std::array<int64_t, 2>> all;
  histogram.for_each_bucket([&](Nanos low, Nanos, uint64_t count) {
    all.push_back({low.count(), static_cast<int64_t>(count)});
  });
  return all;
}

void expect_same(const Histogram& simulated, const Histogram& expected) {
  EXPECT_EQ(simulated.count(), expected.count());
  EXPECT_EQ(simulated.sum_ns(), expected.sum_ns());
  EXPECT_EQ(simulated.min(), expected.min());
  EXPECT_EQ(simulated.max(), expected.max());
  EXPECT_EQ(buckets_of(simulated), buckets_of(expected));
}

void expect_same(const Outcome& outcome, const Expected& expected) {
  for (size_t i = 0; i < outcome.types.size(); ++i) {
    expect_same(outcome.types[i].latency, expected.latency[i]);
    expect_same(outcome.types[i].slowdown, expected.slowdown[i]);
  }
}

struct Traffic {
  uint32_t workers;
  const char* mix;
  double load;
};
constexpr Traffic kTraffics[] = {{1, "exp-10", 0.9},          {2, "fixed-1", 0.7},
                                 {16, "extreme-bimodal", 0.6}, {16, "zippydb", 1.3},
                                 {64, "fixed-850ns", 0.95},    {256, "exp-1", 0.9}};

TEST(Simulation, one_queue_agrees_with_kiefer_and_wolfowitz_request_by_request) {
  const uint64_t seed = testing::test_seed(11);
  for (const Traffic& t : kTraffics) {
    sim::Setup setup = ideal(t.workers, t.mix, t.load, 30'000);
    setup.seed = seed;
    setup.warmup = 0;
    SCOPED_TRACE(std::string(t.mix) + " on " + std::to_string(t.workers));
    expect_same(run<Cfcfs>(setup), one_queue(setup));
  }
}

TEST(Simulation, an_inbox_each_agrees_with_lindley_request_by_request) {
  const uint64_t seed = testing::test_seed(12);
  for (const Traffic& t : kTraffics) {
    for (const Steering steering : {Steering::kRss, Steering::kRoundRobin}) {
      sim::Setup setup = ideal(t.workers, t.mix, t.load, 30'000);
      setup.seed = seed;
      setup.warmup = 0;
      setup.costs.nic.steering = steering;
      SCOPED_TRACE(std::string(t.mix) + " on " + std::to_string(t.workers));
      expect_same(run<Fcfs>(setup), queue_each(setup));
    }
  }
}

TEST(Simulation, stalls_agree_with_lindley_request_by_request) {
  const uint64_t seed = testing::test_seed(13);
  for (const auto hits : {StallsHit::kCore, StallsHit::kMachine}) {
    for (const auto lengths : {StallLengths::kConstant, StallLengths::kExponential}) {
      for (const Traffic& t : kTraffics) {
        sim::Setup setup = ideal(t.workers, t.mix, 0.7 * t.load, 30'000);
        setup.seed = seed;
        setup.warmup = 0;
        setup.costs.nic.steering = Steering::kRoundRobin;
        setup.costs.stalls = {Nanos::micros(50), Nanos::micros(10), lengths, hits};
        SCOPED_TRACE(std::string(t.mix) + " on " + std::to_string(t.workers));
        expect_same(run<Fcfs>(setup), queue_each(setup));
      }
    }
  }
}

// On one worker all policies without preemption are the same queue.
TEST(Simulation, with_one_worker_stealing_is_first_come_first_served) {
  sim::Setup setup = ideal(1, "exp-10", 0.8, 30'000);
  setup.warmup = 0;
  expect_same(run<Steal>(setup), one_queue(setup));
}

Price random_price(Prng& prng, uint32_t most_ns) {
  const Nanos typical(prng.below(most_ns));
  return {typical, typical * int64_t{prng.below(5)}};
}

Costs::Stalls random_stalls(Prng& prng) {
  const Nanos every(20'000 + prng.below(100'000));
  const Nanos length(prng.below(static_cast<uint32_t>(every.count() / 2)));
  return {every, length, static_cast<StallLengths>(prng.below(2)),
          static_cast<StallsHit>(prng.below(2))};
}

// A lock does not go with stalls.
Costs::CriticalSections random_sections(Prng& prng, bool stalls) {
  const auto lock = static_cast<Lock>(stalls ? 0 : prng.below(3));
  return {1 + prng.below(5), Nanos(1 + prng.below(700)), lock};
}

void put_before_workers(Prng& prng, Costs& costs) {
  costs.dispatcher = Nanos(prng.below(100));
  costs.dispatching = {Nanos(prng.below(100)), Nanos(prng.below(100)), prng.below(64),
                       static_cast<IdleDispatcher>(prng.below(2))};
  costs.net_worker = {Nanos(prng.below(2) * prng.below(100)), prng.below(64)};
}

Costs random_costs(Prng& prng) {
  Costs costs;
  costs.nic.delivery = prng.below(2) == 0 ? Delivery::kDirect : Delivery::kPolled;
  costs.nic.steering = static_cast<Steering>(prng.below(4));
  costs.nic.ring_capacity = 1 + prng.below(64);
  costs.nic.burst = 1 + prng.below(32);
  costs.nic.pcie = Nanos(prng.below(500));
  costs.nic.rule_update = Nanos(prng.below(10'000));
  costs.nic.poll_every = Nanos(prng.below(2) * prng.below(50'000));
  costs.nic.poll_picks = 1 + prng.below(64);
  costs.nic.help_after = Nanos(prng.below(2) * prng.below(100'000));
  costs.network_rtt = Nanos(prng.below(2'000));
  costs.queue_capacity = 1u << prng.below(12);
  Costs::Worker& worker = costs.worker;
  for (Price* price : {&worker.poll, &worker.receive, &worker.send, &worker.put, &worker.take,
                       &worker.steal, &worker.fresh_fiber, &worker.resume}) {
    *price = random_price(prng, 200);
  }
  for (Nanos* cost : {&worker.look, &worker.steal_each, &worker.cache_transfer, &worker.feedback,
                      &worker.notice, &worker.resume_alone}) {
    *cost = Nanos(prng.below(100));
  }
  Costs::Manager& manager = costs.manager;
  manager.step = Nanos(prng.below(100));
  for (Price* price : {&manager.send, &manager.receive, &manager.put}) {
    *price = random_price(prng, 100);
  }
  costs.noc = {prng.below(5), Nanos(prng.below(20))};
  Costs::Preemption& preemption = costs.preemption;
  preemption.clock = prng.below(2) == 0 ? Clock::kSelf : Clock::kTimerCore;
  preemption.scan = Nanos(prng.below(10));
  for (Price* price : {&preemption.arm, &preemption.overshoot, &preemption.send,
                       &preemption.propagation, &preemption.receive, &preemption.done}) {
    *price = random_price(prng, 500);
  }
  if (prng.below(3) == 0) costs.stalls = random_stalls(prng);
  worker.shared_line = Nanos(prng.below(2) * prng.below(200));
  if (prng.below(2) == 0) {
    costs.critical_sections = random_sections(prng, costs.stalls.length > Nanos());
  }
  if (preemption.clock == Clock::kSelf && prng.below(2) == 0) {
    preemption.checkpoints = Nanos(1 + prng.below(1000));
    worker.clock = static_cast<WorkerClock>(prng.below(2));
  }
  if (prng.below(3) == 0) put_before_workers(prng, costs);
  return costs;
}

// A queue must have room for a batch that is stolen into it.
void make_room(Costs& costs) {
  costs.queue_capacity = std::max(costs.queue_capacity, 2 * limits::kStealMax);
}

sim::Setup random_setup(Prng& prng) {
  constexpr uint32_t kWorkers[] = {1, 2, 3, 14, 64, 256};
  constexpr const char* kMixes[] = {"extreme-bimodal", "exp-1", "fixed-850ns", "zippydb", "tpcc"};
  const double load = 0.2 + 1.4 * prng.uniform();
  const uint64_t requests = 200 + prng.below(1'000);
  sim::Setup setup = ideal(kWorkers[prng.below(6)], kMixes[prng.below(5)], load, requests);
  setup.costs = random_costs(prng);
  make_room(setup.costs);
  setup.seed = prng.next();
  setup.warmup = 0;
  setup.classify = prng.below(2) == 0 ? Classify::kFeedback : Classify::kAge;
  return setup;
}

std::string describe(const sim::Setup& setup) {
  char text[120];
  std::snprintf(text, sizeof text, ", %u workers, %s, rate %.0f, %llu requests, queues of %u",
                setup.workers, setup.workload.mixes[0].name().c_str(), setup.workload.rate,
                static_cast<unsigned long long>(setup.requests), setup.costs.queue_capacity);
  return text;
}

RequestCounts expect_all_accounted_for(std::string_view policy, const Settings& settings,
                               const sim::Setup& setup) {
  const Outcome outcome = simulate(policy, settings, setup).value();
  const RequestCounts counts = counts_of(outcome);
  EXPECT_EQ(outcome.requests, setup.requests);
  EXPECT_EQ(outcome.measured, setup.requests);
  EXPECT_EQ(counts.done + counts.refused + counts.lost, setup.requests);
  EXPECT_EQ(more(outcome, "left_waiting"), 0u);
  EXPECT_LE(outcome.busy_share, 1 + 1e-9);
  double busy = 0;
  for (const double share : outcome.worker_busy) busy += share / setup.workers;
  EXPECT_NEAR(busy, outcome.busy_share, 1e-9);
  for (const TypeOutcome& type : outcome.types) {
    if (type.slowdown.count() > 0) {
      EXPECT_GE(type.slowdown.min().count(), kSlowdownUnit);
    }
  }
  if (counts.done < setup.requests) return counts;
  // Every nanosecond of every service was given exactly once.
  Nanos service;
  RequestSource source(setup.workload, setup.seed);
  for (uint64_t i = 0; i < setup.requests; ++i) service += source.next().service;
  const double worker_ns = static_cast<double>(outcome.simulated.count()) * setup.workers;
  EXPECT_NEAR(outcome.useful_share * worker_ns, static_cast<double>(service.count()), 1);
  return counts;
}

struct Simulated {
  const char* name;
  testing::PolicySettings (*draw_settings)(Prng& prng);

  friend void PrintTo(const Simulated& policy, std::ostream* out) { *out << policy.name; }
};

std::vector<Simulated> all_simulated() {
  std::vector<Simulated> all;
  for_each_policy([&]<class P>(std::type_identity<P>) {
    all.push_back({P::kName, testing::draw_settings<P>});
  });
  return all;
}

class EveryPolicy : public ::testing::TestWithParam<Simulated> {};

INSTANTIATE_TEST_SUITE_P(Simulation, EveryPolicy, ::testing::ValuesIn(all_simulated()),
                         [](const auto& param) { return testing::case_name(param.param.name); });

TEST_P(EveryPolicy, accounts_for_every_request_on_random_machines) {
  constexpr uint64_t kMachines = 200;
  const testing::Seeds seeds = testing::test_seeds(kMachines);
  RequestCounts all;
  for (uint64_t seed = seeds.first; seed < seeds.end() && !HasFailure(); ++seed) {
    Prng prng(seed);
    const sim::Setup setup = random_setup(prng);
    const testing::PolicySettings settings = GetParam().draw_settings(prng);
    const testing::Replay replay(
        seed, GetParam().name + describe(setup) + testing::as_arguments(settings));
    const RequestCounts counts = expect_all_accounted_for(GetParam().name, settings, setup);
    all.done += counts.done, all.refused += counts.refused, all.lost += counts.lost;
  }
  std::printf("%s: %llu runs: %llu requests done, %llu refused, %llu lost at rings\n",
              GetParam().name, static_cast<unsigned long long>(seeds.count),
              static_cast<unsigned long long>(all.done),
              static_cast<unsigned long long>(all.refused),
              static_cast<unsigned long long>(all.lost));
}

}  // namespace
}  // namespace rubato::sim
