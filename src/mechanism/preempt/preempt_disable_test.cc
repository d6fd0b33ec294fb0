// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/preempt_disable.h"

#include <gtest/gtest.h>

#include <thread>

namespace rubato {
namespace {

int g_honoured = 0;

struct PreemptDisableTest : testing::Test {
  PreemptDisableTest() {
    g_honoured = 0;
    set_pending_preemption_handler([] { ++g_honoured; });
  }
  ~PreemptDisableTest() override {
    set_pending_preemption_handler(nullptr);
    clear_preemption_pending();
  }
};

TEST_F(PreemptDisableTest, sections_nest_and_are_counted) {
  EXPECT_FALSE(preemption_disabled());
  {
    PreemptDisableGuard outer;
    EXPECT_EQ(preempt_disable_depth(), 1u);
    rubato_preempt_count_inc();
    EXPECT_EQ(preempt_disable_depth(), 2u);
    rubato_preempt_count_dec();
    EXPECT_TRUE(preemption_disabled());
  }
  EXPECT_FALSE(preemption_disabled());
  EXPECT_EQ(g_honoured, 0);
}

TEST_F(PreemptDisableTest, what_is_pending_is_honoured_once_when_the_outermost_is_left) {
  {
    PreemptDisableGuard outer;
    {
      PreemptDisableGuard inner;
      set_preemption_pending();
      EXPECT_EQ(preempt_disable_depth(), 2u);
    }
    EXPECT_EQ(g_honoured, 0);
  }
  EXPECT_EQ(g_honoured, 1);
  { PreemptDisableGuard next; }
  EXPECT_EQ(g_honoured, 1);
}

TEST_F(PreemptDisableTest, what_fell_due_outside_is_honoured_at_the_end_of_the_next_section) {
  set_preemption_pending();
  EXPECT_FALSE(preemption_disabled());
  rubato_preempt_count_inc();
  EXPECT_EQ(g_honoured, 0);
  rubato_preempt_count_dec();
  EXPECT_EQ(g_honoured, 1);
}

TEST_F(PreemptDisableTest, what_is_cleared_is_not_honoured) {
  {
    PreemptDisableGuard section;
    set_preemption_pending();
    clear_preemption_pending();
  }
  EXPECT_EQ(g_honoured, 0);
}

TEST_F(PreemptDisableTest, exchange_of_the_depth_keeps_what_is_pending) {
  preempt_disable();
  preempt_disable();
  set_preemption_pending();
  EXPECT_EQ(exchange_preempt_depth(0), 2u);
  EXPECT_FALSE(preemption_disabled());
  EXPECT_EQ(exchange_preempt_depth(1), 0u);
  preempt_enable();
  EXPECT_EQ(g_honoured, 1);
}

TEST_F(PreemptDisableTest, quiet_end_leaves_what_is_pending_to_the_next) {
  preempt_disable();
  set_preemption_pending();
  preempt_enable_no_resched();
  EXPECT_FALSE(preemption_disabled());
  EXPECT_EQ(g_honoured, 0);
  rubato_preempt_count_inc();
  rubato_preempt_count_dec_no_resched();
  EXPECT_EQ(g_honoured, 0);
  { PreemptDisableGuard next; }
  EXPECT_EQ(g_honoured, 1);
}

TEST_F(PreemptDisableTest, each_thread_has_its_own_count) {
  PreemptDisableGuard section;
  std::thread([] { EXPECT_FALSE(preemption_disabled()); }).join();
  EXPECT_TRUE(preemption_disabled());
}

TEST(PreemptDisableGuard, code_is_safe_until_somebody_says_otherwise) {
  EXPECT_FALSE(is_async_signal_unsafe(4711));
  set_async_signal_unsafe_predicate([](uintptr_t pc) { return pc == 4711; });
  EXPECT_TRUE(is_async_signal_unsafe(4711));
  EXPECT_FALSE(is_async_signal_unsafe(4712));
  set_async_signal_unsafe_predicate(nullptr);
}

TEST(PreemptDisableGuard, who_is_no_request_has_to_block) { EXPECT_FALSE(yield_for_lock()); }

}  // namespace
}  // namespace rubato
