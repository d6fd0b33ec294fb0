// SPDX-License-Identifier: Apache-2.0
#include "runtime/interrupt_pace.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

void come(InterruptPace& pace, Nanos late, int times) {
  for (int i = 0; i < times; ++i) pace.came(late);
}

TEST(InterruptPace, without_interrupts_there_is_no_bound) {
  EXPECT_EQ(InterruptPace().shortest(), Nanos());
}

TEST(InterruptPace, request_runs_as_long_as_the_interrupt_and_the_way_back_take) {
  for (const Nanos late : {Nanos::micros(1), Nanos::micros(40)}) {
    InterruptPace pace;
    come(pace, late, 100);
    EXPECT_GT(pace.shortest(), late * 4 - Nanos(100));
    EXPECT_LE(pace.shortest(), late * 4);
  }
}

TEST(InterruptPace, follows_a_cost_that_changes) {
  InterruptPace pace;
  come(pace, Nanos::micros(40), 100);
  come(pace, Nanos::micros(1), 100);
  EXPECT_LT(pace.shortest(), Nanos::micros(5));
}

TEST(InterruptPace, one_that_came_after_other_threads_counts_little) {
  InterruptPace pace;
  come(pace, Nanos::micros(2), 100);
  pace.came(Nanos::seconds(1));
  EXPECT_LT(pace.shortest(), Nanos::micros(150));
  come(pace, Nanos::micros(2), 50);
  EXPECT_LT(pace.shortest(), Nanos::micros(10));
}

TEST(InterruptPace, one_for_which_there_was_no_time_counts_as_punctual) {
  InterruptPace pace;
  pace.came(Nanos(-5));
  EXPECT_EQ(pace.shortest(), Nanos());
}

}  // namespace
}  // namespace rubato
