// SPDX-License-Identifier: Apache-2.0
#include "overload/advertised_weight.h"

#include <gtest/gtest.h>

namespace rubato::overload {
namespace {

constexpr Nanos kTarget = Nanos::millis(1);

class AdvertisedWeightTest : public ::testing::Test {
 protected:
  void look(int times, uint64_t refused_of_100, Nanos delay = {}) {
    for (int i = 0; i < times; ++i) {
      health_.served += 100 - refused_of_100;
      health_.refused += refused_of_100;
      health_.delay = delay;
      weight_.look(health_);
    }
  }

  AdvertisedWeight weight_{kTarget};
  ServerHealth health_;
};

TEST_F(AdvertisedWeightTest, is_full_while_requests_hardly_wait) {
  look(100, 0, kTarget / 3);
  EXPECT_EQ(weight_.percent(), AdvertisedWeight::kFull);
}

TEST_F(AdvertisedWeightTest, does_not_move_for_one_long_wait) {
  look(10, 0);
  look(1, 0, kTarget * 3);
  look(10, 0);
  EXPECT_EQ(weight_.percent(), AdvertisedWeight::kFull);
}

TEST_F(AdvertisedWeightTest, falls_while_waits_are_long_and_comes_back_more_slowly) {
  look(20, 0, kTarget * 2);
  const int low = weight_.percent();
  EXPECT_LT(low, 20);
  look(20, 0);
  EXPECT_GT(weight_.percent(), low);
  EXPECT_LT(weight_.percent(), AdvertisedWeight::kFull);
  look(60, 0);
  EXPECT_EQ(weight_.percent(), AdvertisedWeight::kFull);
}

TEST_F(AdvertisedWeightTest, stays_between_half_the_target_and_the_target) {
  look(4, 0, kTarget * 4);
  look(20, 0, kTarget * 3 / 4);
  const int held = weight_.percent();
  look(100, 0, kTarget * 3 / 4);
  EXPECT_EQ(weight_.percent(), held);
}

TEST_F(AdvertisedWeightTest, falls_while_requests_are_refused_though_nobody_waits) {
  look(10, 10);
  EXPECT_LT(weight_.percent(), 50);
  EXPECT_FALSE(weight_.drains());
}

TEST_F(AdvertisedWeightTest, drains_where_most_is_refused_at_the_least_weight) {
  look(19, 80);
  EXPECT_FALSE(weight_.drains());
  look(60, 80);
  EXPECT_TRUE(weight_.drains());
  look(200, 30);
  EXPECT_TRUE(weight_.drains());
  look(19, 0);
  EXPECT_TRUE(weight_.drains());
  look(1, 0);
  EXPECT_FALSE(weight_.drains());
  EXPECT_LT(weight_.percent(), 10);
}

TEST_F(AdvertisedWeightTest, never_falls_below_the_least) {
  look(1000, 100, kTarget * 1000);
  EXPECT_EQ(weight_.percent(), AdvertisedWeight::kLeast);
}

}  // namespace
}  // namespace rubato::overload
