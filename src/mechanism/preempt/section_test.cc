// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/section.h"

#include <gtest/gtest.h>

#include <thread>

namespace rubato {
namespace {

int g_honoured = 0;

struct SectionTest : testing::Test {
  SectionTest() {
    g_honoured = 0;
    section_set_handler([] { ++g_honoured; });
  }
  ~SectionTest() override {
    section_set_handler(nullptr);
    section_clear_pending();
  }
};

TEST_F(SectionTest, sections_nest_and_are_counted) {
  EXPECT_FALSE(in_section());
  {
    Section outer;
    EXPECT_EQ(section_depth(), 1u);
    rubato_section_enter();
    EXPECT_EQ(section_depth(), 2u);
    rubato_section_leave();
    EXPECT_TRUE(in_section());
  }
  EXPECT_FALSE(in_section());
  EXPECT_EQ(g_honoured, 0);
}

TEST_F(SectionTest, what_is_pending_is_honoured_once_when_the_outermost_is_left) {
  {
    Section outer;
    {
      Section inner;
      section_set_pending();
      EXPECT_EQ(section_depth(), 2u);
    }
    EXPECT_EQ(g_honoured, 0);
  }
  EXPECT_EQ(g_honoured, 1);
  { Section next; }
  EXPECT_EQ(g_honoured, 1);
}

TEST_F(SectionTest, what_fell_due_outside_is_honoured_at_the_end_of_the_next_section) {
  section_set_pending();
  EXPECT_FALSE(in_section());
  rubato_section_enter();
  EXPECT_EQ(g_honoured, 0);
  rubato_section_leave();
  EXPECT_EQ(g_honoured, 1);
}

TEST_F(SectionTest, what_is_cleared_is_not_honoured) {
  {
    Section section;
    section_set_pending();
    section_clear_pending();
  }
  EXPECT_EQ(g_honoured, 0);
}

TEST_F(SectionTest, exchange_of_the_depth_keeps_what_is_pending) {
  section_enter();
  section_enter();
  section_set_pending();
  EXPECT_EQ(section_exchange_depth(0), 2u);
  EXPECT_FALSE(in_section());
  EXPECT_EQ(section_exchange_depth(1), 0u);
  section_leave();
  EXPECT_EQ(g_honoured, 1);
}

TEST_F(SectionTest, quiet_end_leaves_what_is_pending_to_the_next) {
  section_enter();
  section_set_pending();
  section_leave_quietly();
  EXPECT_FALSE(in_section());
  EXPECT_EQ(g_honoured, 0);
  rubato_section_enter();
  rubato_section_leave_quietly();
  EXPECT_EQ(g_honoured, 0);
  { Section next; }
  EXPECT_EQ(g_honoured, 1);
}

TEST_F(SectionTest, each_thread_has_its_own_count) {
  Section section;
  std::thread([] { EXPECT_FALSE(in_section()); }).join();
  EXPECT_TRUE(in_section());
}

TEST(Section, code_is_safe_until_somebody_says_otherwise) {
  EXPECT_FALSE(code_is_unsafe(4711));
  set_code_is_unsafe([](uintptr_t pc) { return pc == 4711; });
  EXPECT_TRUE(code_is_unsafe(4711));
  EXPECT_FALSE(code_is_unsafe(4712));
  set_code_is_unsafe(nullptr);
}

TEST(Section, who_is_no_request_has_to_block) { EXPECT_FALSE(yield_for_lock()); }

}  // namespace
}  // namespace rubato
