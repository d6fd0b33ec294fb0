// SPDX-License-Identifier: Apache-2.0
//
// Every policy with several workers under a random mix of short and long pipelined requests: no
// request is lost, none is answered twice, and each flow sees its replies in order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/prng.h"
#include "policy/all.h"
#include "runtime/testing/letter_app.h"

namespace rubato {
namespace {

using testing::LetterServer;

uint64_t seed_of_run() {
  const char* given = std::getenv("RUBATO_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20'261'121;
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  std::printf("seed %llu (RUBATO_SEED replays)\n", static_cast<unsigned long long>(seed));
  return seed;
}

struct Setting {
  std::string policy;
  uint32_t workers;
  PreemptionClock clock;
  Classify classify;
};

class EveryPolicy : public ::testing::TestWithParam<Setting> {};

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for_each_policy([&]<class P>(std::type_identity<P>) {
    if (!kServesLive<P>) return;
    all.push_back({P::kName, 1, PreemptionClock::kSelf, Classify::kAge});
    all.push_back({P::kName, 3, PreemptionClock::kSelf, Classify::kLearned});
    all.push_back({P::kName, 2, PreemptionClock::kTimerCore, Classify::kFeedback});
  });
  return all;
}

// The line number `i` of a flow: most are short, some long, a few control plane.
std::string line(Prng& prng, int i) {
  const uint32_t draw = prng.below(20);
  const char letter = draw == 0 ? 'L' : draw == 1 ? 'C' : draw == 2 ? 'X' : 'S';
  return std::string(1, letter) + std::to_string(i) + "\n";
}

TEST_P(EveryPolicy, answers_each_request_once_and_in_order_of_its_flow) {
  const Setting& setting = GetParam();
  LetterServer server(setting.policy, setting.workers);
  server.options.preemption_clock = setting.clock;
  server.options.classify = setting.classify;
  server.options.max_fibers = 64;
  server.app.on('L') = [](Request&) {
    long_begin();
    for (int i = 0; i < 20'000; ++i) checkpoint();
    long_end();
  };
  server.app.on('X') = [](Request&) {
    for (int i = 0; i < 20'000; ++i) checkpoint();
  };
  server.start();
  Prng prng(seed_of_run());
  constexpr int kFlows = 16;
  constexpr int kLines = 60;
  std::vector<uint64_t> flows;
  std::vector<std::string> expected(kFlows);
  for (uint32_t f = 0; f < kFlows; ++f) flows.push_back(server.connect(f % setting.workers));
  for (int i = 0; i < kLines; ++i) {
    for (size_t f = 0; f < kFlows; ++f) {
      const std::string text = line(prng, i);
      expected[f] += text;
      server.submit(flows[f], text);
    }
  }
  for (size_t f = 0; f < kFlows; ++f) {
    EXPECT_EQ(server.receive(flows[f], expected[f].size()), expected[f]);
  }
  EXPECT_TRUE(server.stop());
  const RuntimeStats stats = server.runtime->stats();
  EXPECT_EQ(stats.requests, uint64_t{kFlows} * kLines);
  EXPECT_EQ(stats.refused, 0u);
  EXPECT_EQ(stats.preemptions, stats.resumed);
  for (const QueueDepth& queue : server.runtime->queue_depths()) EXPECT_EQ(queue.depth, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Runtime, EveryPolicy, ::testing::ValuesIn(settings()), [](const auto& param) {
      const char* clock = param.param.clock == PreemptionClock::kSelf ? "self" : "timer";
      std::string policy = param.param.policy;
      std::replace(policy.begin(), policy.end(), '-', '_');
      return policy + "_" + std::to_string(param.param.workers) + "_" + clock;
    });

}  // namespace
}  // namespace rubato
