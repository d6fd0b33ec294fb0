// SPDX-License-Identifier: Apache-2.0
//
// Every policy that serves live, in virtual time: 1 to 64 workers, its settings at random, with
// faults and without. No request is lost or answered twice, each flow sees its replies in order,
// none waits longer than a bound, the counters add up, and a stop ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "policy/testing/replay.h"
#include "policy/testing/seed.h"
#include "runtime/testing/letter_app.h"
#include "runtime/testing/live_policies.h"
#include "virtual/world.h"

namespace rubato {
namespace {

using testing::LetterServer;
using testing::LivePolicy;
using testing::PolicySettings;

constexpr Nanos kShort = Nanos::micros(1);
constexpr Nanos kLong = Nanos::micros(200);
// What the requests of a round may take beyond twice their service, if none of them waits beside a
// worker that sleeps: less than the millisecond after which the watchdog makes up for a missed
// wake-up.
constexpr Nanos kSlack = Nanos::micros(300);
constexpr Nanos kSlackPerReply = Nanos::micros(10);

// One run, drawn from its seed.
struct Setting {
  Setting(const LivePolicy& policy, Prng& prng)
      : name(policy.name),
        workers(1u << prng.below(7)),
        clock(prng.below(3) == 0 ? PreemptionClock::kTimerCore : PreemptionClock::kSelf),
        classify(static_cast<Classify>(prng.below(3))),
        options(prng.below(2) == 0 ? PolicySettings{} : policy.draw_settings(prng)),
        flows(1 + prng.below(24)),
        rounds(1 + prng.below(20)) {
    world.seed = prng.next();
    if (workers > 1 && prng.below(3) == 0) allocate_cores(prng);
    if (prng.below(2) == 0) return;
    faulty = true;
    world.stall_one_in = 2'000 << prng.below(6);
    world.late_wake_up_one_in = 4;
    world.spurious_wake_up_one_in = 8;
  }

  // Workers park whenever they can, and come back at once.
  void allocate_cores(Prng& prng) {
    static constexpr const char* kRules[] = {"reactive", "caladan", "coresync", "util-range"};
    cores = kRules[prng.below(4)];
    guaranteed = 1 + prng.below(workers - 1);
    cores_settings = {{"interval", "100ns"}, {"threshold", "100ns"}};
    cores == "util-range" ? cores_settings.emplace_back("low", "1")
                          : cores_settings.emplace_back("poll", "0");
  }

  // Drawn settings may be such that the policy does little but switch; cores come back slowly.
  bool may_be_slow() const { return faulty || !options.empty() || !cores.empty(); }

  std::string describe() const {
    return name + ", " + std::to_string(workers) + " workers, " +
           (clock == PreemptionClock::kSelf ? "self" : "timer core") + ", classify " +
           std::to_string(static_cast<int>(classify)) + (faulty ? ", faults" : "") +
           (cores.empty() ? "" : ", cores " + cores + " " + std::to_string(guaranteed)) +
           testing::as_arguments(options);
  }

  std::string name;
  uint32_t workers;
  PreemptionClock clock;
  Classify classify;
  PolicySettings options;
  std::string cores = {};
  PolicySettings cores_settings = {};
  uint32_t guaranteed = 0;
  uint32_t flows;
  uint32_t rounds;
  bool faulty = false;
  virt::WorldOptions world;
};

void compute(Nanos time) {
  constexpr Nanos kStep = Nanos(250);
  for (Nanos done; done < time; done += kStep) {
    virt::spend(kStep);
    checkpoint();
  }
}

// The line number `i` of a flow: most are short, some long, a few control plane.
std::string line(Prng& prng, uint32_t i) {
  const uint32_t draw = prng.below(20);
  const char letter = draw == 0 ? 'L' : draw == 1 ? 'C' : draw == 2 ? 'X' : 'S';
  return std::string(1, letter) + std::to_string(i) + "\n";
}

// Short gaps are about as many as long ones, from a few accesses to longer than workers spin.
Nanos draw_gap(Prng& prng) { return Nanos(50) * (int64_t{1} << prng.below(12)); }

// A client that sends in rounds, with and without waiting for the replies in between.
void serve(const Setting& setting, Prng& prng) {
  LetterServer server(setting.name, setting.workers);
  server.options.preemption_clock = setting.clock;
  server.options.classify = setting.classify;
  server.options.policy_settings.insert(setting.options.begin(), setting.options.end());
  server.options.max_fibers = 128;
  if (!setting.cores.empty()) {
    server.options.cores = setting.cores;
    server.options.cores_settings.insert(setting.cores_settings.begin(),
                                         setting.cores_settings.end());
    server.options.guaranteed_cores = setting.guaranteed;
  }
  server.app.on('S') = [](Request&) { virt::spend(kShort); };
  server.app.on('X') = [](Request&) { compute(kLong); };
  server.app.on('L') = [](Request&) {
    long_begin();
    compute(kLong);
    long_end();
  };
  server.start();
  std::vector<uint64_t> flows;
  for (uint32_t f = 0; f < setting.flows; ++f) flows.push_back(server.connect(f % setting.workers));
  std::vector<std::string> expected(setting.flows);
  std::vector<std::string> received(setting.flows);
  Nanos outstanding;
  const auto receive_all = [&] {
    const Instant begin = now();
    const Nanos bound = std::exchange(outstanding, Nanos()) * 2 + kSlack +
                        kSlackPerReply * static_cast<int64_t>(flows.size());
    for (size_t f = 0; f < flows.size(); ++f) {
      received[f] += server.receive(flows[f], expected[f].size() - received[f].size());
      EXPECT_EQ(received[f], expected[f]);
    }
    if (!setting.may_be_slow()) {
      EXPECT_LT((now() - begin).count(), bound.count());
    }
  };
  for (uint32_t i = 0; i < setting.rounds; ++i) {
    for (size_t f = 0; f < flows.size(); ++f) {
      const std::string text = line(prng, i);
      expected[f] += text;
      outstanding += text[0] == 'L' || text[0] == 'X' ? kLong : kShort;
      server.submit(flows[f], text);
      if (prng.below(2) == 0) virt::spend(draw_gap(prng));
    }
    if (prng.below(2) == 0) receive_all();
    // Long enough that workers fall asleep.
    if (prng.below(4) == 0) virt::spend(Nanos::millis(1 + prng.below(300)));
  }
  receive_all();
  EXPECT_TRUE(server.stop());
  const RuntimeStats stats = server.runtime->stats();
  EXPECT_EQ(stats.requests, uint64_t{setting.flows} * setting.rounds);
  EXPECT_EQ(stats.refused, 0u);
  EXPECT_EQ(stats.preemptions, stats.resumed);
  for (const QueueDepth& queue : server.runtime->queue_depths()) EXPECT_EQ(queue.depth, 0u);
}

class VirtualRuntime : public ::testing::TestWithParam<LivePolicy> {};

INSTANTIATE_TEST_SUITE_P(EveryPolicy, VirtualRuntime, ::testing::ValuesIn(testing::all_live()),
                         [](const auto& param) { return testing::case_name(param.param.name); });

TEST_P(VirtualRuntime, answers_each_request_once_in_order_and_soon) {
  constexpr uint64_t kRuns = 20;
  const testing::Seeds seeds = testing::test_seeds(kRuns);
  for (uint64_t seed = seeds.first; seed < seeds.end() && !HasFailure(); ++seed) {
    Prng prng(seed);
    const Setting setting(GetParam(), prng);
    const testing::Replay replay(seed, setting.describe());
    virt::run(setting.world, [&] { serve(setting, prng); });
  }
}

}  // namespace
}  // namespace rubato
