// SPDX-License-Identifier: Apache-2.0
#include "policy/dynamic_quantum.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

TEST(DynamicQuantum, begins_with_an_average_that_is_assumed) {
  EXPECT_EQ(DynamicQuantum().of(Nanos(), 2), Nanos::micros(10));
}

TEST(DynamicQuantum, the_first_sample_is_the_average) {
  const DynamicQuantum quantum;
  Nanos average;
  quantum.learn(average, Nanos::micros(3));
  EXPECT_EQ(average, Nanos::micros(3));
  EXPECT_EQ(quantum.of(average, 4), Nanos::micros(12));
}

TEST(DynamicQuantum, later_samples_weigh_an_eighth) {
  const DynamicQuantum quantum;
  Nanos average = Nanos::micros(8);
  quantum.learn(average, Nanos::micros(16));
  EXPECT_EQ(average, Nanos::micros(9));
  quantum.learn(average, Nanos::micros(1));
  EXPECT_EQ(average, Nanos::micros(8));
}

TEST(DynamicQuantum, a_huge_sample_counts_as_four_averages) {
  const DynamicQuantum quantum;
  Nanos average = Nanos::micros(8);
  quantum.learn(average, Nanos::millis(50));
  EXPECT_EQ(average, Nanos::micros(8 + 3));
  Nanos first;
  quantum.learn(first, Nanos::millis(50));
  EXPECT_EQ(first, Nanos::micros(20));  // four of what was assumed
  Nanos as_it_is = Nanos::micros(8);
  DynamicQuantum{.ema_clip = 0}.learn(as_it_is, Nanos::micros(808));
  EXPECT_EQ(as_it_is, Nanos::micros(108));
}

TEST(DynamicQuantum, stays_within_its_bounds_of_which_the_upper_wins) {
  const DynamicQuantum quantum;
  EXPECT_EQ(quantum.of(Nanos(10), 2), Nanos::micros(1));
  EXPECT_EQ(quantum.of(Nanos::millis(1), 2), Nanos::micros(200));
  const DynamicQuantum contradictory{.low = Nanos(50), .high = Nanos(40)};
  EXPECT_EQ(contradictory.of(Nanos(1), 1), Nanos(40));
}

}  // namespace
}  // namespace rubato
