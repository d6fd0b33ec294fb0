// SPDX-License-Identifier: Apache-2.0
#include "load/steal_time.h"

#include <gtest/gtest.h>

namespace rubato::load {
namespace {

TEST(StealTime, is_a_share_of_the_ticks_in_between) {
  EXPECT_EQ(steal_percent({true, 10, 100}, {true, 15, 200}), 5.0);
}

TEST(StealTime, is_unknown_without_ticks_or_readings) {
  EXPECT_FALSE(steal_percent({true, 1, 100}, {true, 1, 100}));
  EXPECT_FALSE(steal_percent({}, {true, 1, 100}));
}

TEST(StealTime, this_system_tells_it) { EXPECT_GT(read_steal_time().total, 0u); }

}  // namespace
}  // namespace rubato::load
