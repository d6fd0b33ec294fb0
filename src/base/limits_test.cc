// SPDX-License-Identifier: Apache-2.0
#include "base/limits.h"

#include <bit>

#include <gtest/gtest.h>

namespace rubato {
namespace {

TEST(Limits, ring_capacities_are_powers_of_two) {
  EXPECT_TRUE(std::has_single_bit(limits::kInboxCapacity));
  EXPECT_TRUE(std::has_single_bit(limits::kSharedCapacity));
  EXPECT_TRUE(std::has_single_bit(limits::kCacheLineBytes));
}

TEST(Limits, a_burst_and_a_steal_fit_an_inbox) {
  EXPECT_LE(limits::kBurst, limits::kInboxCapacity);
  EXPECT_LE(limits::kStealMax, limits::kInboxCapacity);
}

}  // namespace
}  // namespace rubato
