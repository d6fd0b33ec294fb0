// SPDX-License-Identifier: Apache-2.0
#include "sched/learned.h"

#include <gtest/gtest.h>

namespace rubato::sched {
namespace {

TEST(Learned, averages_per_type_and_size) {
  Learned learned;
  EXPECT_EQ(learned.expected(3, 100), Nanos());
  learned.add(3, 100, Nanos(800), JobClass::kShort);
  EXPECT_EQ(learned.expected(3, 100), Nanos(800));
  learned.add(3, 120, Nanos(1'600), JobClass::kLong);
  EXPECT_EQ(learned.expected(3, 100), Nanos(900));
  EXPECT_EQ(learned.expected(3, 5'000), Nanos());
  EXPECT_EQ(learned.expected(4, 100), Nanos());
}

TEST(Learned, knows_whether_the_last_one_was_long) {
  Learned learned;
  EXPECT_FALSE(learned.was_long(3, 100));
  learned.add(3, 100, Nanos(800), JobClass::kLong);
  EXPECT_TRUE(learned.was_long(3, 120));
  EXPECT_FALSE(learned.was_long(3, 5'000));
  learned.add(3, 100, Nanos(800), JobClass::kShort);
  EXPECT_FALSE(learned.was_long(3, 100));
}

}  // namespace
}  // namespace rubato::sched
