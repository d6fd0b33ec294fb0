// SPDX-License-Identifier: Apache-2.0
#include "overload/cores/rule.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

namespace rubato::overload {
namespace {

// Nobody has credits.
struct Alone final : CoreHost {
  int64_t drained() override { return 0; }
  int64_t sessions() override { return 0; }
  int64_t outstanding() override { return 0; }
  int64_t cores() override { return 2; }
  bool claim_parking() override { return true; }
  void release_parking() override {}
  void withhold(int64_t) override {}
  void give_back(int64_t) override {}
};

IdleAction rest_after(CoreRule& rule, Nanos polled) {
  Alone host;
  return rule.idle(1, polled, host);
}

TEST(CoreRule, every_allocator_is_made_by_its_name) {
  for_each_allocator([]<class A>(std::type_identity<A>) {
    auto rule = CoreRule::make(A::kName, {}, 2);
    ASSERT_TRUE(rule.ok()) << A::kName;
    EXPECT_EQ((*rule)->interval(), A(typename A::Config{}).interval());
    EXPECT_EQ((*rule)->parks(), A::kParks);
  });
}

TEST(CoreRule, what_is_unknown_gets_one_line) {
  EXPECT_EQ(CoreRule::make("nosuch", {}, 1).error(),
            "cores: 'nosuch' is not one of " + core_rule_names());
  EXPECT_EQ(CoreRule::make("reactive", {{"pol", "1"}}, 1).error(),
            "cores_set: reactive has no option 'pol'; did you mean poll?");
  EXPECT_EQ(CoreRule::make("caladan", {{"time_scale", "0"}}, 1).error(),
            "cores_set: time_scale takes a number from 0.01 to 1000, not '0'");
}

TEST(CoreRule, times_that_nobody_sets_are_scaled) {
  auto rule = CoreRule::make("reactive", {{"interval", "7us"}}, 2, 10);
  EXPECT_EQ((*rule)->interval(), Nanos::micros(7));
  EXPECT_EQ(rest_after(**rule, Nanos::micros(19)), IdleAction::kPoll);  // the default poll is 2 us
  EXPECT_EQ(rest_after(**rule, Nanos::micros(20)), IdleAction::kPark);
}

TEST(CoreRule, a_scale_that_is_set_is_in_place_of_the_hosts) {
  auto rule = CoreRule::make("reactive", {{"time_scale", "2"}}, 2, 10);
  EXPECT_EQ((*rule)->interval(), Nanos::micros(10));
  EXPECT_EQ(rest_after(**rule, Nanos::micros(4)), IdleAction::kPark);
}

TEST(CoreRule, a_core_that_polls_keeps_what_it_withheld_to_itself) {
  struct Lending final : CoreHost {
    int64_t drained() override { return 0; }
    int64_t sessions() override { return 10; }
    int64_t outstanding() override { return 100 - withheld; }
    int64_t cores() override { return 2; }
    bool claim_parking() override { return !std::exchange(parking, true); }
    void release_parking() override { parking = false; }
    void withhold(int64_t n) override { withheld += n; }
    void give_back(int64_t n) override { withheld -= n; }
    int64_t withheld = 0;
    bool parking = false;
  } host;
  auto rule = CoreRule::make("coresync", {{"r", "10"}}, 2);
  EXPECT_EQ((*rule)->idle(0, Nanos::millis(1), host), IdleAction::kPoll);
  EXPECT_EQ(host.withheld, 45);  // (100 - 10) / 2
  (*rule)->resumed(1, host);     // withheld nothing
  EXPECT_EQ(host.withheld, 45);
  (*rule)->resumed(0, host);
  EXPECT_EQ(host.withheld, 0);
}

}  // namespace
}  // namespace rubato::overload
