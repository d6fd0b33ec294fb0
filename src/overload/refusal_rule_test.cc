// SPDX-License-Identifier: Apache-2.0
#include "overload/refusal_rule.h"

#include <gtest/gtest.h>

namespace rubato::overload {
namespace {

constexpr Nanos kTarget = Nanos::micros(500);
constexpr Nanos kLate = kTarget * 2 + Nanos(1);
constexpr Nanos kInTime = kTarget * 2;

class RefusalRuleTest : public ::testing::Test {
 protected:
  Instant after(Nanos time) { return now_ = now_ + time; }

  // Requests that are late come for so long, and the worker never runs out.
  void be_late_for(Nanos time) {
    for (const Instant end = now_ + time; now_ < end;) rule_.serves(kLate, after(kTarget));
  }

  RefusalSettings settings_{.target_delay = kTarget};
  RefusalRule rule_{settings_};
  Instant now_{1'000'000'000};
};

TEST_F(RefusalRuleTest, a_stall_that_is_caught_up_with_refuses_nobody) {
  for (int i = 0; i < 100; ++i) {
    for (Nanos busy; busy < settings_.patience - kTarget; busy += kTarget) {
      EXPECT_TRUE(rule_.serves(kLate * 100, after(kTarget)));
    }
    rule_.ran_out(now_);
  }
  EXPECT_FALSE(rule_.overloaded());
}

TEST_F(RefusalRuleTest, who_is_late_once_waits_have_been_long_for_longer_than_patience_is_refused) {
  EXPECT_TRUE(rule_.serves(kLate, now_));
  EXPECT_FALSE(rule_.serves(kLate, after(settings_.patience)));
  EXPECT_TRUE(rule_.overloaded());
  EXPECT_TRUE(rule_.serves(kInTime, now_));
}

TEST_F(RefusalRuleTest, in_overload_running_out_for_a_moment_forgives_nobody) {
  be_late_for(settings_.patience * 2);
  rule_.ran_out(now_);
  EXPECT_FALSE(rule_.serves(kLate, after(Nanos::millis(1))));
}

TEST_F(RefusalRuleTest, is_over_when_nobody_was_late_for_a_while) {
  be_late_for(settings_.patience * 2);
  EXPECT_TRUE(rule_.serves(kInTime, after(settings_.calm)));
  EXPECT_TRUE(rule_.overloaded());
  EXPECT_TRUE(rule_.serves(kInTime, after(Nanos(1))));
  EXPECT_FALSE(rule_.overloaded());
  EXPECT_TRUE(rule_.serves(kLate, now_));  // patience anew
}

TEST_F(RefusalRuleTest, refuses_again_soon_after_a_stall_in_the_middle_of_a_refusal) {
  be_late_for(settings_.patience * 2);
  rule_.spent(Nanos::seconds(1));
  EXPECT_TRUE(rule_.serves(kLate, after(Nanos::millis(9))));
  EXPECT_FALSE(rule_.serves(kLate, after(Nanos::millis(2))));
}

TEST_F(RefusalRuleTest, is_over_as_well_when_nothing_comes_any_more) {
  be_late_for(settings_.patience * 2);
  rule_.ran_out(after(settings_.calm + Nanos(1)));
  EXPECT_FALSE(rule_.overloaded());
}

// Else a server for which refusing is as much work as serving would serve nobody.
TEST_F(RefusalRuleTest, refusing_takes_its_part_of_the_time_and_no_more) {
  be_late_for(settings_.patience * 2);
  const Nanos cost = Nanos::micros(10);
  Nanos refusing;
  Nanos serving;
  for (int i = 0; i < 100'000; ++i) {
    if (rule_.serves(kLate, after(cost))) {
      serving += cost;
    } else {
      refusing += cost;
      rule_.spent(cost);
    }
  }
  EXPECT_NEAR(refusing.seconds() / (refusing + serving).seconds(), settings_.budget, 0.01);
}

TEST_F(RefusalRuleTest, a_pipeline_beyond_its_turn_may_wait_for_the_target_only) {
  EXPECT_TRUE(rule_.serves_more(kInTime, now_));  // there is no overload
  be_late_for(settings_.patience * 2);
  EXPECT_TRUE(rule_.serves_more(kTarget, now_));
  EXPECT_FALSE(rule_.serves_more(kTarget + Nanos(1), now_));
}

TEST_F(RefusalRuleTest, a_long_request_may_wait_for_some_times_its_own_service) {
  const Nanos service = Nanos::millis(10);
  EXPECT_EQ(rule_.late_among_long(service * 8, service), Nanos());
  EXPECT_EQ(rule_.late_among_long(service * 9, service), service * 9);
}

TEST_F(RefusalRuleTest, a_long_request_may_wait_for_the_drop_delay) {
  const Nanos service = Nanos::micros(10);
  EXPECT_EQ(rule_.late_among_long(kInTime, service), Nanos());
  EXPECT_EQ(rule_.late_among_long(kLate, service), kLate);
}

TEST_F(RefusalRuleTest, a_long_request_with_a_target_of_its_own_may_wait_for_twice_that) {
  settings_.target_delay_long = kTarget * 10;
  RefusalRule refusal_rule(settings_);
  EXPECT_TRUE(refusal_rule.serves(kLate, now_));
  const Instant later = now_ + settings_.patience;
  EXPECT_FALSE(refusal_rule.serves(kLate, later));
  EXPECT_TRUE(refusal_rule.serves(kInTime * 10, later, true));
  EXPECT_FALSE(refusal_rule.serves(kInTime * 10 + Nanos(1), later, true));
  EXPECT_TRUE(refusal_rule.serves_more(kTarget * 10, later, true));
  EXPECT_FALSE(refusal_rule.serves_more(kTarget * 10, later));
  EXPECT_EQ(refusal_rule.retry_after(later, true), kInTime * 10);
  // Also among others of its kind, whatever it takes.
  EXPECT_EQ(refusal_rule.late_among_long(kInTime * 10, kTarget * 100), Nanos());
  EXPECT_GT(refusal_rule.late_among_long(kInTime * 10 + Nanos(1), kTarget * 100), Nanos());
}

TEST_F(RefusalRuleTest, asks_to_come_back_later_the_longer_it_lasts) {
  EXPECT_EQ(rule_.retry_after(now_), settings_.refuse_delay());
  be_late_for(settings_.patience * 2);
  const Nanos first = rule_.retry_after(now_);
  be_late_for(Nanos::seconds(1));
  EXPECT_GT(rule_.retry_after(now_), first);
  be_late_for(Nanos::seconds(20));
  EXPECT_EQ(rule_.retry_after(now_), settings_.longest_retry);
}

}  // namespace
}  // namespace rubato::overload
