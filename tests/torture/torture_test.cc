// SPDX-License-Identifier: Apache-2.0
//
// The workloads of the torture test as requests of the live runtime, interrupted at whatever
// instruction they are at, by signals and by timers. As often as RUBATO_TORTURE_PREEMPTIONS says.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "tests/torture/expected.h"
#include "tests/torture/served.h"
#include "tests/torture/stores.h"

namespace torture {
namespace {

using rubato::PreemptMechanism;

TEST(Workloads, give_the_same_on_every_thread) {
  const Stores stores;
  const Expected expected(workloads());
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
  const Stores stores;
  for (const Workload& workload : workloads()) {
    EXPECT_NE(workload.run(1), workload.run(2)) << workload.name;
  }
}

class Torture : public ::testing::TestWithParam<PreemptMechanism> {};

TEST_P(Torture, results_are_those_of_a_run_without_preemption) {
  if (const rubato::Status has = rubato::available(GetParam()); !has.ok()) {
    GTEST_SKIP() << has.error();
  }
  const Stores stores;
  Served served(GetParam(), "60us", workloads());
  // A timer core on a machine with few cores comes to its turn late.
  const bool own_timer = GetParam() == PreemptMechanism::kTimer;
  const uint64_t wanted = asked("RUBATO_TORTURE_PREEMPTIONS", own_timer ? 40'000 : 4'000);
  served.start();
  while (served.stats().preemptions < wanted && !HasFatalFailure()) served.serve_a_round();
  EXPECT_TRUE(served.stop());
  const auto stats = served.stats();
  served.expect_results_as_without();
  printf("%lu requests, %lu preemptions, %lu put off\n", served.requests(), stats.preemptions,
         stats.preemptions_deferred);
  EXPECT_EQ(stats.preemptions + stats.lock_yields, stats.resumed);
}

INSTANTIATE_TEST_SUITE_P(By, Torture,
                         ::testing::Values(PreemptMechanism::kSignal, PreemptMechanism::kTimer),
                         [](const auto& with) { return rubato::to_string(with.param); });

}  // namespace
}  // namespace torture
