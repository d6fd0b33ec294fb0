// SPDX-License-Identifier: Apache-2.0
#include "fleet/budget.h"

#include <gtest/gtest.h>

namespace rubato::fleet {
namespace {

TEST(Budget, extras_are_a_share_of_the_requests_and_a_reserve) {
  Budget budget(0.1);
  int extras = 0;
  for (int i = 0; i < 1000; ++i) {
    budget.earn();
    while (budget.spend()) ++extras;
  }
  EXPECT_NEAR(extras, 110, 1);
  Budget none(0);
  extras = 0;
  while (none.spend()) ++extras;
  EXPECT_EQ(extras, 10);
}

}  // namespace
}  // namespace rubato::fleet
