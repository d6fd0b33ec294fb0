// SPDX-License-Identifier: Apache-2.0
//
// Against Zhou et al., SoCC 2018, sections 4.1 to 4.2.3.
#include "overload/dagor_rule.h"

#include <gtest/gtest.h>

#include <vector>

namespace rubato::overload {
namespace {

class DagorRuleTest : public ::testing::Test {
 protected:
  DagorRuleTest() { by_level_.assign(kLevels, 0); }

  // A window in which each of the levels so far used had that many arrivals.
  void decide(int64_t per_level, uint32_t used, Nanos mean_wait) {
    LoadWindow window{.length = settings_.window, .waited = Nanos(), .queued_for = Nanos()};
    for (uint32_t level = 0; level < kLevels; ++level) {
      by_level_[level] = level < used ? per_level : 0;
      window.arrived += by_level_[level];
      window.admitted += level < rule_.limits().levels ? by_level_[level] : 0;
    }
    window.started = window.admitted;
    window.waited = mean_wait * window.started;
    window.by_level = by_level_;
    rule_.decide(window, Instant(1));
  }
  uint32_t levels() const { return rule_.limits().levels; }

  static constexpr Nanos kLate = Nanos::millis(21);
  static constexpr Nanos kInTime = Nanos::millis(20);
  DagorSettings settings_;
  DagorRule rule_{settings_, 0};
  std::vector<int64_t> by_level_;
};

TEST_F(DagorRuleTest, looks_every_second_or_every_2000_requests) {
  EXPECT_EQ(rule_.window().length, Nanos::seconds(1));
  EXPECT_EQ(rule_.window().requests, 2000);
}

TEST_F(DagorRuleTest, a_mean_wait_up_to_the_threshold_is_no_overload) {
  decide(10, 100, kInTime);
  EXPECT_EQ(levels(), kLevels);
}

// 100 levels of 10 requests: 950 are to be left.
TEST_F(DagorRuleTest, an_overloaded_server_admits_a_twentieth_less_of_what_it_admitted) {
  decide(10, 100, kLate);
  EXPECT_EQ(levels(), 95u);
  decide(10, 100, kLate);  // of 950: 902.5
  EXPECT_EQ(levels(), 90u);
}

// Levels are whole: what is left is never more than 95 %.
TEST_F(DagorRuleTest, the_level_falls_until_enough_are_gone) {
  decide(1000, 2, kLate);
  EXPECT_EQ(levels(), 1u);
  decide(1000, 2, kLate);
  EXPECT_EQ(levels(), 1u) << "the most urgent are always admitted";
}

TEST_F(DagorRuleTest, a_server_that_is_not_overloaded_admits_a_hundredth_of_the_arrivals_more) {
  for (int i = 0; i < 10; ++i) decide(10, 100, kLate);
  const uint32_t low = levels();
  decide(10, 100, kInTime);  // 1 % of 1000
  EXPECT_EQ(levels(), low + 1);
}

TEST_F(DagorRuleTest, levels_that_nobody_uses_are_passed_over) {
  for (int i = 0; i < 3; ++i) decide(10, 100, kLate);
  for (int i = 0; i < 200 && levels() < kLevels; ++i) decide(10, 100, kInTime);
  EXPECT_EQ(levels(), kLevels);
  decide(10, 100, kLate);
  EXPECT_EQ(levels(), 95u);
}

TEST_F(DagorRuleTest, a_server_that_starts_nothing_while_requests_wait_is_overloaded) {
  by_level_[0] = 50;
  by_level_[1] = 50;
  LoadWindow window{.length = settings_.window, .waited = Nanos(), .queued_for = Nanos()};
  window.arrived = window.admitted = window.waiting = 100;
  window.by_level = by_level_;
  rule_.decide(window, Instant(1));
  EXPECT_EQ(levels(), 1u);
}

TEST_F(DagorRuleTest, a_quiet_window_changes_nothing) {
  decide(10, 100, kLate);
  decide(0, 100, Nanos());
  EXPECT_EQ(levels(), 95u);
}

}  // namespace
}  // namespace rubato::overload
