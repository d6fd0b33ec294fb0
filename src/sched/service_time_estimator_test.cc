// SPDX-License-Identifier: Apache-2.0
#include "sched/service_time_estimator.h"

#include <gtest/gtest.h>

namespace rubato::sched {
namespace {

TEST(ServiceTimeEstimator, averages_per_type_and_size) {
  ServiceTimeEstimator estimator;
  EXPECT_EQ(estimator.expected(3, 100), Nanos());
  estimator.add(3, 100, Nanos(800), JobClass::kShort);
  EXPECT_EQ(estimator.expected(3, 100), Nanos(800));
  estimator.add(3, 120, Nanos(1'600), JobClass::kLong);
  EXPECT_EQ(estimator.expected(3, 100), Nanos(900));
  EXPECT_EQ(estimator.expected(3, 5'000), Nanos());
  EXPECT_EQ(estimator.expected(4, 100), Nanos());
}

TEST(ServiceTimeEstimator, knows_whether_the_last_one_was_long) {
  ServiceTimeEstimator estimator;
  EXPECT_FALSE(estimator.was_long(3, 100));
  estimator.add(3, 100, Nanos(800), JobClass::kLong);
  EXPECT_TRUE(estimator.was_long(3, 120));
  EXPECT_FALSE(estimator.was_long(3, 5'000));
  estimator.add(3, 100, Nanos(800), JobClass::kShort);
  EXPECT_FALSE(estimator.was_long(3, 100));
}

}  // namespace
}  // namespace rubato::sched
