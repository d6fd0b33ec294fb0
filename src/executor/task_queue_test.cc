// SPDX-License-Identifier: Apache-2.0
#include "executor/task_queue.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <thread>

#include "executor/task_datapath.h"
#include "mechanism/fiber/sanitizer.h"

namespace rubato {
namespace {

constexpr Nanos kLong = Nanos::seconds(3600);  // the test would time out

class OneTaskQueue : public testing::Test {
 protected:
  TaskPools pools_{4, {}};
  IdleQueues idle_;
  TaskQueue queue_{0, pools_, idle_};
};

// A worker that finds other work after a wait does not poll before the next one.
TEST_F(OneTaskQueue, nobody_sleeps_beside_a_task_whose_wake_has_ended_an_earlier_wait) {
  queue_.submit(*pools_.of(kPolicyGroup).take());
  queue_.wait(kLong);
  queue_.submit(*pools_.of(kPolicyGroup).take());  // not the first that waits: wakes nobody
  queue_.wait(kLong);
  std::array<Request*, 8> tasks;
  EXPECT_EQ(queue_.poll(tasks), 2u);
  for (size_t i = 0; i < 2; ++i) queue_.finish(*tasks[i]);
  EXPECT_EQ(pools_.taken(), 0u);
}

TEST_F(OneTaskQueue, nobody_sleeps_beside_the_rest_of_what_came) {
  for (int i = 0; i < 2; ++i) queue_.submit(*pools_.of(kPolicyGroup).take());
  queue_.wait(kLong);
  std::array<Request*, 1> one;
  EXPECT_EQ(queue_.poll(one), 1u);
  queue_.finish(*one[0]);
  queue_.wait(kLong);
  EXPECT_EQ(queue_.poll(one), 1u);
  queue_.finish(*one[0]);
}

TEST(TaskPool, counts_no_fewer_tasks_than_are_out_while_it_makes_some) {
  constexpr uint32_t kMost = 1u << 16;
  TaskPool pool(kMost);
  std::atomic<uint32_t> out{0};
  std::jthread taker([&] {
    while (pool.take() != nullptr) out.fetch_add(1, std::memory_order_release);
  });
  for (uint64_t before = 0; before < kMost;) {
    before = out.load(std::memory_order_acquire);
    const uint64_t taken = pool.taken();
    ASSERT_GE(taken, before);
    ASSERT_LE(taken, kMost);
  }
}

TEST(TaskDatapath, says_that_it_has_no_addresses_for_its_tasks) {
  if (sanitizer::kPresent) GTEST_SKIP() << "sanitizers need more addresses than any limit";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit little{uint64_t{4} << 30, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &little), 0);
  const Status good = TaskDatapath(1, 1u << 24, {}, false).check();
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_FALSE(good.ok());
  EXPECT_TRUE(good.error().starts_with("max_tasks: no 6144 MiB of addresses")) << good.error();
}

}  // namespace
}  // namespace rubato
