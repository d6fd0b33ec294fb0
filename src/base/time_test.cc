// SPDX-License-Identifier: Apache-2.0
#include "base/time.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

TEST(Nanos, named_constructors_agree_on_the_unit) {
  EXPECT_EQ(Nanos::micros(3), Nanos(3'000));
  EXPECT_EQ(Nanos::millis(3), Nanos::micros(3'000));
  EXPECT_EQ(Nanos::seconds(3), Nanos::millis(3'000));
}

TEST(Nanos, fractions_round_toward_zero) {
  EXPECT_EQ(Nanos::from_micros(0.5), Nanos(500));
  EXPECT_EQ(Nanos::from_micros(0.0005), Nanos(0));
  EXPECT_EQ(Nanos::from_micros(-0.0005), Nanos(0));
  EXPECT_EQ(Nanos::from_seconds(1.5), Nanos::millis(1'500));
}

TEST(Nanos, converts_back_to_micros_and_seconds) {
  EXPECT_DOUBLE_EQ(Nanos(1'500).micros(), 1.5);
  EXPECT_DOUBLE_EQ(Nanos::millis(250).seconds(), 0.25);
}

TEST(Nanos, adds_scales_and_compares) {
  Nanos sum = Nanos(5) + Nanos(7);
  sum += Nanos(8);
  sum -= Nanos(10);
  EXPECT_EQ(sum, Nanos(10));
  EXPECT_EQ(sum * 3, Nanos(30));
  EXPECT_EQ(sum / 4, Nanos(2));
  EXPECT_LT(Nanos(1) - Nanos(2), Nanos());
  EXPECT_LT(Nanos::seconds(1'000'000'000), Nanos::max());
}

TEST(Instant, difference_of_two_is_a_length_of_time) {
  const Instant start(1'000);
  const Instant end = start + Nanos(250);
  EXPECT_EQ(end - start, Nanos(250));
  EXPECT_EQ(start - end, Nanos(-250));
  EXPECT_EQ(end - Nanos(250), start);
}

TEST(Instant, never_is_after_every_real_instant) {
  EXPECT_LT(Instant() + Nanos::seconds(9'000'000'000), Instant::never());
}

static_assert(sizeof(Nanos) == 8 && sizeof(Instant) == 8);
static_assert(Nanos::micros(1) * 1000 == Nanos::millis(1));

}  // namespace
}  // namespace rubato
