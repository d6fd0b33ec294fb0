// SPDX-License-Identifier: Apache-2.0
//
// Preempted at random basic blocks, hundreds of times per request, by a pool of fibers of its own.
// Each runs as long as RUBATO_TORTURE_CHECKPOINTS says; RUBATO_SEED chooses the blocks.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdio>

#include "tests/torture/expected.h"
#include "tests/torture/pool.h"
#include "tests/torture/stores.h"

namespace torture {
namespace {

constexpr uint32_t kThreads = 2;
constexpr uint32_t kFibers = 24;
constexpr uint32_t kMeanBlocks = 150;  // some hundred nanoseconds

class TortureAtBlocks : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    stores_ = std::make_unique<Stores>();
    expected_ = std::make_unique<Expected>(workloads());
  }
  static void TearDownTestSuite() {
    expected_.reset();
    stores_.reset();
  }
  static std::unique_ptr<Stores> stores_;
  static std::unique_ptr<Expected> expected_;
};
std::unique_ptr<Stores> TortureAtBlocks::stores_;
std::unique_ptr<Expected> TortureAtBlocks::expected_;

TEST_F(TortureAtBlocks, results_are_those_of_a_run_without_preemption) {
  const uint64_t wanted = asked("RUBATO_TORTURE_CHECKPOINTS", 2'000'000);
  const uint64_t seed = asked("RUBATO_SEED", 1);
  Pool pool(kThreads, kFibers, kMeanBlocks, seed);
  std::atomic<uint64_t> next{0};
  std::vector<std::atomic<uint64_t>> wrong(workloads().size());
  pool.run([&] {
    const uint64_t number = next.fetch_add(1) % expected_->count();
    if (!expected_->holds(number)) ++wrong[number / Expected::kSeeds];
    return pool.preemptions() < wanted;
  });
  for (size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_EQ(wrong[i], 0u) << workloads()[i].name << ", RUBATO_SEED=" << seed;
  }
  const PoolStats stats = pool.stats();
  printf("%lu requests, %lu preemptions (%lu put off to the end of a section), %lu yields for "
         "locks, %lu moves to the other thread\n",
         next.load(), stats.preemptions, stats.preemption_disabled, stats.lock_yields, stats.moves);
  EXPECT_GE(stats.preemptions, wanted);
  EXPECT_GT(stats.preemption_disabled, 0u);
  EXPECT_GT(stats.moves, 0u);
}

}  // namespace
}  // namespace torture
