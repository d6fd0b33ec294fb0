// SPDX-License-Identifier: Apache-2.0
//
// The same seed gives the same result, to the bit: on several threads at once, with and without a
// watcher, and on every compiler and build, which is what the recorded digests are for. After a
// change that is meant to change results, this prints the lines to put here:
//   build/dev/src/sim/sim_determinism_test --gtest_filter='*digest*' | grep 'Golden{'
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "metrics/trace.h"
#include "policy/catalog.h"
#include "sim/simulation.h"
#include "sim/testing/digest.h"
#include "sim/testing/runs.h"

namespace rubato::sim {
namespace {

// A machine on which everything costs something, and differently.
Costs costly(Clock clock, Delivery delivery, Steering steering) {
  Costs costs;
  costs.nic.delivery = delivery;
  costs.nic.steering = steering;
  costs.nic.pcie = Nanos(450);
  costs.nic.rule_update = Nanos(10'000);
  costs.network_rtt = Nanos(4001);
  costs.noc = {4, Nanos(3)};
  Costs::Worker& worker = costs.worker;
  worker.poll = {Nanos(31), Nanos(310)};
  worker.receive = {Nanos(53), Nanos(900)};
  worker.send = {Nanos(61), Nanos(1200)};
  worker.put = {Nanos(13), Nanos(40)};
  worker.take = {Nanos(11), Nanos(43)};
  worker.look = Nanos(2);
  worker.steal = {Nanos(110), Nanos(600)};
  worker.steal_each = Nanos(17);
  worker.cache_transfer = Nanos(71);
  worker.feedback = Nanos(5);
  worker.fresh_fiber = {Nanos(23), Nanos(230)};
  worker.resume = {Nanos(37), Nanos(370)};
  worker.notice = Nanos(29);
  Costs::Preemption& preemption = costs.preemption;
  preemption.clock = clock;
  preemption.scan = Nanos(7);
  preemption.arm = {Nanos(19), Nanos(190)};
  preemption.overshoot = {Nanos(700), Nanos(9000)};
  preemption.send = {Nanos(410), Nanos(4100)};
  preemption.propagation = {Nanos(510), Nanos(5100)};
  preemption.receive = {Nanos(230), Nanos(2300)};
  preemption.done = {Nanos(120), Nanos(1200)};
  return costs;
}

struct Golden {
  const char* policy;
  const char* machine;
  const char* mix;
  uint32_t workers;
  double load;
  uint64_t digest;
};

Costs machine(const std::string& name) {
  if (name == "self") return costly(Clock::kSelf, Delivery::kPolled, Steering::kRss);
  if (name == "timer") return costly(Clock::kTimerCore, Delivery::kDirect, Steering::kRoundRobin);
  if (name == "rules") return costly(Clock::kTimerCore, Delivery::kPolled, Steering::kFlowDirector);
  RUBATO_CHECK(name == "ideal");
  return Costs();
}

sim::Setup setup_of(const Golden& golden) {
  sim::Setup setup = ideal(golden.workers, golden.mix, golden.load, 100'000);
  setup.costs = machine(golden.machine);
  setup.seed = 20'260'101;
  return setup;
}

uint64_t simulate_digest(const Golden& golden) {
  return digest_of(simulate(golden.policy, {}, setup_of(golden)).value());
}

constexpr Golden kGolden[] = {
    Golden{"fcfs", "ideal", "exp-1", 4, 0.7, 0xe791c54a50551a1d},
    Golden{"cfcfs", "ideal", "extreme-bimodal", 16, 0.6, 0xfed17f1968580a21},
    Golden{"cfcfs", "timer", "fixed-850ns", 256, 0.5, 0xbe734ff3b0e122a9},
    Golden{"steal", "self", "exp-10", 14, 0.8, 0x4dfbcec1effb4967},
    Golden{"ps", "ideal", "bimodal-10", 8, 0.8, 0x5d18555d7a6048ed},
    Golden{"ps", "timer", "tpcc", 16, 0.7, 0x29ceccbc3625cf16},
    Golden{"synergy", "ideal", "extreme-bimodal", 14, 0.8, 0x5fc153b5a410b4b0},
    Golden{"synergy", "timer", "zippydb", 14, 0.8, 0x646ee2cebc7e0531},
    Golden{"synergy", "self", "zippydb", 14, 0.8, 0x0d4f0a981078813a},
    Golden{"synergy", "rules", "rocksdb-ht", 64, 0.9, 0xb1db49947b85d61b},
};

TEST(Determinism, the_digest_of_a_run_is_the_recorded_one) {
  for (const Golden& golden : kGolden) {
    const uint64_t digest = simulate_digest(golden);
    std::printf("    Golden{\"%s\", \"%s\", \"%s\", %u, %g, 0x%016" PRIx64 "},\n", golden.policy,
                golden.machine, golden.mix, golden.workers, golden.load, digest);
    EXPECT_EQ(digest, golden.digest) << golden.policy << " on " << golden.machine;
  }
}

// The engine of ideal machines leaves out what has a price, and events in which nothing happens.
TEST(Determinism, an_ideal_machine_does_what_the_same_machine_does_among_others) {
  for (const uint32_t workers : {14u, limits::kSimulatedWorkers}) {
    for (const PolicyInfo& policy : all_policies()) {
      sim::Setup setup = ideal(workers, "tpcc", 0.8, 4'000);
      Outcome known = simulate(policy.name, {}, setup).value();
      setup.costs.nic.ring_capacity += 1;  // of rings that nothing uses
      Outcome other = simulate(policy.name, {}, setup).value();
      known.events = other.events = 0;
      EXPECT_EQ(digest_of(known), digest_of(other)) << policy.name << " on " << workers;
    }
  }
}

TEST(Determinism, ends_of_slices_at_which_nothing_waits_have_no_event_and_count) {
  for (const char* policy : {"ps", "shinjuku", "srpt", "las", "mlfq", "tinyquanta", "sbb",
                             "synergy"}) {
    for (const double load : {0.3, 0.9}) {
      sim::Setup setup = ideal(8, "high-bimodal", load, 10'000);
      Outcome without = simulate(policy, {}, setup).value();
      setup.costs.nic.ring_capacity += 1;  // not the ideal machine
      Outcome with = simulate(policy, {}, setup).value();
      EXPECT_GT(with.counters.preemptions_avoided, 1000u) << policy;
      EXPECT_LT(without.events, load < 0.5 ? with.events / 2 : with.events) << policy << load;
      without.events = with.events = 0;
      EXPECT_EQ(digest_of(without), digest_of(with)) << policy << load;
    }
  }
}

TEST(Determinism, runs_at_the_same_time_do_not_touch_each_other) {
  static constexpr Golden kTraffic = kGolden[8];
  const uint64_t alone = simulate_digest(kTraffic);
  std::vector<uint64_t> digests(4);
  std::vector<std::thread> threads;
  for (uint64_t& digest : digests) {
    threads.emplace_back([&digest] { digest = simulate_digest(kTraffic); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const uint64_t digest : digests) EXPECT_EQ(digest, alone);
}

TEST(Determinism, another_seed_is_another_run) {
  sim::Setup setup = setup_of(kGolden[6]);
  const uint64_t one = digest_of(simulate("synergy", {}, setup).value());
  ++setup.seed;
  EXPECT_NE(digest_of(simulate("synergy", {}, setup).value()), one);
}

TEST(Determinism, watching_and_tracing_a_run_does_not_change_it) {
  const sim::Setup setup = setup_of(kGolden[8]);
  Watch watch;
  watch.progress = [](double) { return true; };
  const std::string path = ::testing::TempDir() + "determinism_trace.json";
  std::vector<std::string> types;
  for (const RequestType& type : types_of(setup.workload)) types.push_back(type.name);
  auto trace = Trace::open(path, {}, setup.workers, types);
  RUBATO_CHECK(trace.ok());
  watch.trace = trace->get();
  EXPECT_EQ(digest_of(simulate("synergy", {}, setup, watch).value()), simulate_digest(kGolden[8]));
  EXPECT_TRUE((*trace)->finish().ok());
  std::remove(path.c_str());
}

}  // namespace
}  // namespace rubato::sim
