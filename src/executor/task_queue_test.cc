// SPDX-License-Identifier: Apache-2.0
#include "executor/task_queue.h"

#include <gtest/gtest.h>

#include <array>

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

}  // namespace
}  // namespace rubato
