// SPDX-License-Identifier: Apache-2.0
//
// The workloads of the torture test as requests of the live runtime, interrupted at whatever
// instruction they are at, by signals and by timers. As often as RUBATO_TORTURE_PREEMPTIONS says.
#include <gtest/gtest.h>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "runtime/testing/letter_app.h"
#include "tests/torture/expected.h"

namespace torture {
namespace {

using rubato::PreemptMechanism;
using rubato::testing::LetterServer;

TEST(Workloads, give_the_same_on_every_thread) {
  const Expected expected;
  ASSERT_EQ(expected.trouble(), "");
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (;;) {
        const uint64_t number = next.fetch_add(1);
        if (number >= expected.count()) return;
        if (!expected.holds(number)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
}

TEST(Workloads, differ_by_seed) {
  const Expected expected;
  for (const Workload& workload : workloads()) {
    EXPECT_NE(workload.run(1), workload.run(2)) << workload.name;
  }
}

class Torture : public ::testing::TestWithParam<PreemptMechanism> {
 protected:
  static constexpr uint32_t kWorkers = 2;
  static constexpr uint32_t kFlows = 16;
  static constexpr uint64_t kRow = 36;
  static constexpr uint64_t kStride = 13;  // no factor of the numbers of seeds and of workloads

  void SetUp() override {
    if (const rubato::Status has = rubato::available(GetParam()); !has.ok()) {
      GTEST_SKIP() << has.error();
    }
    ASSERT_EQ(expected_.trouble(), "");
    server_.options.preempt = GetParam();
    server_.options.policy_settings = {{"quantum", "60us"}};
    server_.options.stack_bytes = size_t{256} * 1024;
    server_.app.on('T') = [this](rubato::Request& request) { run(request); };
  }

  // "Tn": a row of workloads and seeds that begins at number n, a few milliseconds in all.
  void run(rubato::Request& request) {
    uint64_t first = 0;
    const std::string_view text = request.payload;
    std::from_chars(text.data() + 1, text.data() + text.size(), first);
    for (uint64_t i = 0; i < kRow; ++i) {
      const uint64_t number = (first + i * kStride) % expected_.count();
      if (!expected_.holds(number)) ++wrong_[number / Expected::kSeeds];
    }
  }

  uint64_t preemptions() { return server_.runtime->stats().preemptions; }

  Expected expected_;
  LetterServer server_{"ps", kWorkers};
  std::vector<std::atomic<uint64_t>> wrong_ =
      std::vector<std::atomic<uint64_t>>(workloads().size());
};

TEST_P(Torture, results_are_those_of_a_run_without_preemption) {
  // A timer core on a machine with few cores comes to its turn late.
  const bool own_timer = GetParam() == PreemptMechanism::kTimer;
  const uint64_t wanted = asked("RUBATO_TORTURE_PREEMPTIONS", own_timer ? 100'000 : 4'000);
  server_.start();
  std::vector<uint64_t> flows;
  for (uint32_t i = 0; i < kFlows; ++i) flows.push_back(server_.connect(i % kWorkers));
  uint64_t next = 0;
  while (preemptions() < wanted) {
    std::vector<std::string> lines;
    for (const uint64_t flow : flows) {
      lines.push_back("T" + std::to_string(next++ % expected_.count()) + "\n");
      server_.submit(flow, lines.back());
    }
    for (size_t i = 0; i < flows.size(); ++i) {
      ASSERT_EQ(server_.receive(flows[i], lines[i].size()), lines[i]);
    }
  }
  const auto stats = server_.runtime->stats();
  EXPECT_TRUE(server_.stop());
  for (size_t i = 0; i < wrong_.size(); ++i) EXPECT_EQ(wrong_[i], 0u) << workloads()[i].name;
  printf("%lu requests, %lu preemptions, %lu put off\n", next, stats.preemptions,
         stats.preemptions_deferred);
  EXPECT_EQ(stats.preemptions + stats.lock_yields, stats.resumed);
}

INSTANTIATE_TEST_SUITE_P(By, Torture,
                         ::testing::Values(PreemptMechanism::kSignal, PreemptMechanism::kTimer),
                         [](const auto& with) { return rubato::to_string(with.param); });

}  // namespace
}  // namespace torture
