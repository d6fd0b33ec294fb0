// SPDX-License-Identifier: Apache-2.0
#include "runtime/wait_queue.h"

#include <gtest/gtest.h>

#include "mechanism/clock/clock.h"
#include "mechanism/preempt/preempt_disable.h"

namespace rubato {
namespace {

WaitQueue* g_queue = nullptr;
int g_left_waiting = 0;
int g_left = 0;

struct WaitQueueTest : testing::Test {
  WaitQueueTest() {
    g_queue = &queue;
    g_left_waiting = g_left = 0;
    set_pending_preemption_handler([] {
      ++g_left;
      const WaitQueue::Guard guard(*g_queue);
      if (!g_queue->empty(guard)) ++g_left_waiting;
    });
  }
  ~WaitQueueTest() override {
    set_pending_preemption_handler(nullptr);
    clear_preemption_pending();
  }

  // A look at what is waited for, in which the slice ends.
  static Wake look() {
    set_preemption_pending();
    return Wake::kNone;
  }

  WaitQueue queue;
};

// Who is left after a stop, on memory that is freed, is in no queue.
TEST_F(WaitQueueTest, whoever_waits_is_not_preempted_in_the_queue) {
  Waiter waiter;
  EXPECT_EQ(queue.wait(waiter, {.deadline = now()}, &look), Wake::kTimeout);
  EXPECT_EQ(g_left, 1);
  EXPECT_EQ(g_left_waiting, 0);
}

}  // namespace
}  // namespace rubato
