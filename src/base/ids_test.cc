// SPDX-License-Identifier: Apache-2.0
#include "base/ids.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

TEST(WorkerId, default_is_the_first_worker) { EXPECT_EQ(WorkerId{}, WorkerId{0}); }

TEST(WorkerId, orders_by_index) {
  EXPECT_LT(WorkerId{1}, WorkerId{2});
  EXPECT_NE(WorkerId{1}, WorkerId{2});
}

}  // namespace
}  // namespace rubato
