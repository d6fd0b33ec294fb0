// SPDX-License-Identifier: Apache-2.0
//
// Every policy with several workers under a random mix of short and long pipelined requests, with
// its options as they are and at random: no request is lost, none is answered twice, and each flow
// sees its replies in order.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/prng.h"
#include "mechanism/fiber/sanitizer.h"
#include "policy/testing/replay.h"
#include "policy/testing/seed.h"
#include "runtime/testing/letter_app.h"
#include "runtime/testing/live_policies.h"

namespace rubato {
namespace {

using testing::LetterServer;
using testing::LivePolicy;
using testing::PolicySettings;

struct Setting {
  std::string policy;
  uint32_t workers;
  PreemptionClock clock;
  Classify classify;
  PolicySettings options;
  std::string cores = {};
  PolicySettings cores_settings = {};
};

std::string describe(const Setting& setting) {
  const char* clock = setting.clock == PreemptionClock::kSelf ? "self" : "timer core";
  return setting.policy + ", " + std::to_string(setting.workers) + " workers, " + clock +
         ", classify " + std::to_string(static_cast<int>(setting.classify)) +
         (setting.cores.empty() ? "" : ", cores " + setting.cores) +
         testing::as_arguments(setting.options);
}

// The line number `i` of a flow: most are short, some long, a few control plane.
std::string line(Prng& prng, int i) {
  const uint32_t draw = prng.below(20);
  const char letter = draw == 0 ? 'L' : draw == 1 ? 'C' : draw == 2 ? 'X' : 'S';
  return std::string(1, letter) + std::to_string(i) + "\n";
}

// Checkpoints of a long request. Under a sanitizer each takes long enough to be preempted at every
// one.
constexpr int kCheckpoints = sanitizer::kPresent ? 1'000 : 20'000;

void serve(const Setting& setting, uint64_t seed) {
  LetterServer server(setting.policy, setting.workers);
  server.options.preemption_clock = setting.clock;
  server.options.classify = setting.classify;
  server.options.policy_settings.insert(setting.options.begin(), setting.options.end());
  server.options.max_fibers = 64;
  if (!setting.cores.empty()) server.options.cores = setting.cores;
  server.options.cores_settings.insert(setting.cores_settings.begin(),
                                       setting.cores_settings.end());
  server.app.on('L') = [](Request&) {
    long_begin();
    for (int i = 0; i < kCheckpoints; ++i) checkpoint();
    long_end();
  };
  server.app.on('X') = [](Request&) {
    for (int i = 0; i < kCheckpoints; ++i) checkpoint();
  };
  server.start();
  Prng prng(seed);
  constexpr int kFlows = 16;
  constexpr int kLines = 60;
  std::vector<uint64_t> flows;
  std::vector<std::string> expected(kFlows);
  for (uint32_t f = 0; f < kFlows; ++f) flows.push_back(server.connect(f % setting.workers));
  std::vector<std::string> received(kFlows);
  const auto receive_all = [&] {
    for (size_t f = 0; f < kFlows; ++f) {
      received[f] += server.receive(flows[f], expected[f].size() - received[f].size());
      EXPECT_EQ(received[f], expected[f]);
    }
  };
  for (int i = 0; i < kLines; ++i) {
    for (size_t f = 0; f < kFlows; ++f) {
      const std::string text = line(prng, i);
      expected[f] += text;
      server.submit(flows[f], text);
    }
    // Workers find nothing more to do now and then, and park.
    if (!setting.cores.empty() && prng.below(4) == 0) receive_all();
  }
  receive_all();
  EXPECT_TRUE(server.stop());
  const RuntimeStats stats = server.runtime->stats();
  EXPECT_EQ(stats.requests, uint64_t{kFlows} * kLines);
  EXPECT_EQ(stats.refused, 0u);
  EXPECT_EQ(stats.preemptions, stats.resumed);
  if (!setting.cores.empty()) {
    // An allocator that looks at the load may never see a low one.
    if (setting.cores != "util-range") {
      EXPECT_GT(stats.core_parks, 0u);
    }
    EXPECT_EQ(stats.cores_granted, setting.workers);  // a worker that stops has its core back
  }
  uint64_t finished = 0;
  for (uint32_t worker = 0; worker < setting.workers; ++worker) {
    for (const char type : {'S', 'L', 'X', 'C'}) {
      finished += server.runtime->finished(WorkerId{worker}, static_cast<uint32_t>(type));
    }
  }
  EXPECT_EQ(finished, stats.requests);
  for (const QueueDepth& queue : server.runtime->queue_depths()) EXPECT_EQ(queue.depth, 0u);
}

class EveryPolicy : public ::testing::TestWithParam<LivePolicy> {};

INSTANTIATE_TEST_SUITE_P(Runtime, EveryPolicy, ::testing::ValuesIn(testing::all_live()),
                         [](const auto& param) { return testing::case_name(param.param.name); });

TEST_P(EveryPolicy, answers_each_request_once_and_in_order_of_its_flow) {
  const uint64_t seed = testing::test_seed(20'261'121);
  const char* const name = GetParam().name;
  for (const Setting& setting :
       {Setting{name, 1, PreemptionClock::kSelf, Classify::kAge, {}},
        Setting{name, 3, PreemptionClock::kSelf, Classify::kLearned, {}},
        Setting{name, 2, PreemptionClock::kTimerCore, Classify::kFeedback, {}}}) {
    const testing::Replay replay(seed, describe(setting));
    serve(setting, seed);
  }
}

TEST_P(EveryPolicy, answers_each_request_once_with_random_settings) {
  constexpr uint64_t kRuns = 5;
  constexpr uint64_t kSeedsPerRun = 10;
  const testing::Seeds seeds = testing::test_seeds(kRuns, kSeedsPerRun);
  for (uint64_t seed = seeds.first; seed < seeds.end() && !HasFailure(); ++seed) {
    Prng prng(seed);
    const Setting setting{
        .policy = GetParam().name,
        .workers = 1 + prng.below(4),
        .clock = prng.below(2) == 0 ? PreemptionClock::kSelf : PreemptionClock::kTimerCore,
        .classify = static_cast<Classify>(prng.below(3)),
        .options = GetParam().draw_settings(prng)};
    const testing::Replay replay(seed, describe(setting));
    serve(setting, prng.next());
  }
}

// Allocators with settings that have workers park whenever they can and come back at once.
TEST_P(EveryPolicy, answers_each_request_once_while_workers_park_and_come_back) {
  const PolicySettings restless{{"poll", "0"}, {"interval", "100ns"}, {"threshold", "100ns"}};
  const PolicySettings narrow{{"interval", "100ns"}, {"threshold", "100ns"}, {"low", "1"}};
  const uint64_t seed = testing::test_seed(20'261'122);
  const char* const name = GetParam().name;
  for (const auto& [cores, settings] : {std::pair{"reactive", restless}, {"caladan", restless},
                                        {"coresync", restless}, {"util-range", narrow}}) {
    const Setting setting{name,  4,     PreemptionClock::kSelf, Classify::kAge, {},
                          cores, settings};
    const testing::Replay replay(seed, describe(setting));
    serve(setting, seed);
  }
}

}  // namespace
}  // namespace rubato
