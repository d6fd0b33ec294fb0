// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

// Forking a death test is only safe from one thread, which is all this program has.
TEST(CheckDeathTest, failed_check_aborts_and_names_the_condition) {
  const int answer = 41;
  EXPECT_DEATH(RUBATO_CHECK(answer == 42), "check_test.cc:[0-9]+: check failed: answer == 42");
}

TEST(Check, passing_check_evaluates_its_condition_once) {
  int evaluations = 0;
  RUBATO_CHECK(++evaluations == 1);
  EXPECT_EQ(evaluations, 1);
}

TEST(CheckDeathTest, pointers_count_as_conditions) {
  const int* nothing = nullptr;
  EXPECT_DEATH(RUBATO_CHECK(nothing), "check failed: nothing");
}

}  // namespace
}  // namespace rubato
