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

  // Of 100 sessions so many have no credit. The delay is what a pool at its limit keeps it at.
  void look_at_sessions(int times, int64_t drained, Nanos delay = kTarget * 2 / 5) {
    health_.sessions = 100;
    health_.drained = drained;
    look(times, 0, delay);
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

TEST_F(AdvertisedWeightTest, falls_while_sessions_have_no_credit_though_waits_are_in_order) {
  look_at_sessions(40, 20);
  EXPECT_LT(weight_.percent(), 10);
  EXPECT_FALSE(weight_.drains());
  look_at_sessions(100, 0);
  EXPECT_EQ(weight_.percent(), AdvertisedWeight::kFull);
}

TEST_F(AdvertisedWeightTest, does_not_move_where_a_stall_emptied_the_pool_for_a_moment) {
  look_at_sessions(20, 0);
  look_at_sessions(1, 90);
  look_at_sessions(40, 0);
  EXPECT_EQ(weight_.percent(), AdvertisedWeight::kFull);
}

TEST_F(AdvertisedWeightTest, does_not_move_where_sessions_come_all_at_once) {
  look_at_sessions(20, 0, Nanos());
  for (int64_t drained = 100; drained > 0; drained -= 5) look_at_sessions(1, drained, Nanos());
  look_at_sessions(40, 0, Nanos());
  EXPECT_EQ(weight_.percent(), AdvertisedWeight::kFull);
}

TEST_F(AdvertisedWeightTest, does_not_come_back_while_sessions_have_no_credit) {
  look_at_sessions(20, 50);
  const int low = weight_.percent();
  look_at_sessions(100, 50, Nanos());
  EXPECT_EQ(weight_.percent(), low);
}

TEST_F(AdvertisedWeightTest, stays_while_some_sessions_have_no_credit) {
  look_at_sessions(20, 20);
  look_at_sessions(40, 5);
  const int held = weight_.percent();
  EXPECT_LT(held, 50);
  look_at_sessions(200, 5);
  EXPECT_EQ(weight_.percent(), held);
}

TEST_F(AdvertisedWeightTest, drains_where_nearly_all_sessions_have_no_credit_at_the_least_weight) {
  look_at_sessions(200, 80);
  EXPECT_FALSE(weight_.drains());
  look_at_sessions(60, 100);
  EXPECT_TRUE(weight_.drains());
  look_at_sessions(200, 50);
  EXPECT_TRUE(weight_.drains());
  look_at_sessions(80, 0);
  EXPECT_FALSE(weight_.drains());
}

// Servers behind one balancer whose clients ask for more than all of them have: none asks for none,
// and none comes back while it lasts.
TEST_F(AdvertisedWeightTest, servers_that_are_overloaded_together_do_not_take_turns) {
  AdvertisedWeight weights[] = {AdvertisedWeight(kTarget), AdvertisedWeight(kTarget)};
  ServerHealth healths[2];
  for (int i = 0; i < 400; ++i) {
    for (int s = 0; s < 2; ++s) {
      healths[s].served += 100;
      healths[s].sessions = 100;
      healths[s].delay = kTarget * (2 + (i + s) % 3) / 5;
      healths[s].drained = 30 + (i * 7 + s * 13) % 40;  // the pool goes up and down
      weights[s].look(healths[s]);
      EXPECT_FALSE(weights[s].drains());
      if (i <= 100) continue;
      EXPECT_EQ(weights[s].percent(), AdvertisedWeight::kLeast);
    }
  }
}

TEST_F(AdvertisedWeightTest, is_full_again_when_all_sessions_have_left) {
  look_at_sessions(60, 50);
  health_.sessions = health_.drained = 0;
  look(120, 0);
  EXPECT_EQ(weight_.percent(), AdvertisedWeight::kFull);
}

// A look reads several counters one after the other.
TEST_F(AdvertisedWeightTest, a_count_that_seems_to_go_back_is_none) {
  look(20, 0);
  health_.refused = 5;
  look(1, 0);
  health_.refused = 4;
  health_.served -= 200;
  look(1, 0);
  look(20, 0);
  EXPECT_EQ(weight_.percent(), AdvertisedWeight::kFull);
}

TEST_F(AdvertisedWeightTest, never_falls_below_the_least) {
  look(1000, 100, kTarget * 1000);
  EXPECT_EQ(weight_.percent(), AdvertisedWeight::kLeast);
}

}  // namespace
}  // namespace rubato::overload
