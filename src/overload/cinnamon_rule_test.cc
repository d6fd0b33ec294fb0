// SPDX-License-Identifier: Apache-2.0
//
// Against "PID Controller for Cinnamon", Uber Engineering, November 2023.
#include "overload/cinnamon_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace rubato::overload {
namespace {

class CinnamonRuleTest : public ::testing::Test {
 protected:
  CinnamonRuleTest() : by_level_(kLevels, 1) { settings_.workers = 8; }

  LoadWindow window(int64_t admitted, int64_t started, double busy = 8) {
    LoadWindow window{.length = settings_.update_every, .waited = Nanos(),
                      .queued_for = Nanos::seconds(11)};
    window.arrived = kLevels;
    window.admitted = admitted;
    window.started = started;
    window.underway = busy;
    window.by_level = by_level_;
    return window;
  }
  void decide(const LoadWindow& window) { rule().decide(window, Instant(1)); }
  CinnamonRule& rule() {
    if (!rule_) rule_.emplace(settings_, 0);
    return *rule_;
  }

  CinnamonSettings settings_;
  std::vector<int64_t> by_level_;  // one arrival each

 private:
  std::optional<CinnamonRule> rule_;
};

TEST_F(CinnamonRuleTest, a_queue_that_was_empty_a_moment_ago_is_no_overload) {
  LoadWindow busy = window(2000, 1000);
  busy.queued_for = Nanos::seconds(9);
  decide(busy);
  EXPECT_EQ(rule().share(), 0);
  EXPECT_EQ(rule().limits().levels, kLevels);
}

// Twice as many in as out: error 1.
TEST_F(CinnamonRuleTest, the_share_is_the_proportional_and_the_integral_term) {
  settings_.kp = 0.1;
  settings_.ki = 0.4;
  decide(window(2000, 1000));
  EXPECT_DOUBLE_EQ(rule().share(), 0.1 + 0.4 * 0.5);
  decide(window(1500, 1000));
  EXPECT_DOUBLE_EQ(rule().share(), 0.05 + 0.4 * 0.5 + 0.4 * 0.5 * 0.5);
}

// A server of more than its load, fluid: what is let in is served, as far as it can be.
TEST_F(CinnamonRuleTest, the_share_settles_where_the_server_is_just_full) {
  for (const double load : {1.2, 2.0, 4.0}) {
    CinnamonRule fluid(settings_, 0);
    double share = 0;
    for (int i = 0; i < 100; ++i) {
      const double let_in = load * (1 - share);
      LoadWindow one = window(static_cast<int64_t>(let_in * 1e6),
                              static_cast<int64_t>(std::min(let_in, 1.0) * 1e6),
                              8 * std::min(let_in, 1.0));
      fluid.decide(one, Instant(1));
      share = fluid.share();
    }
    EXPECT_NEAR(share, 1 - 1 / load, 0.01) << load;
  }
}

TEST_F(CinnamonRuleTest, as_many_in_as_out_hold_the_share) {
  settings_.ki = 0.4;
  decide(window(2000, 1000));
  decide(window(1000, 1000));
  const double held = rule().share();
  EXPECT_DOUBLE_EQ(held, 0.4 * 0.5);
  decide(window(1000, 1000));
  EXPECT_EQ(rule().share(), held);
}

TEST_F(CinnamonRuleTest, free_workers_lower_the_share_to_nothing) {
  decide(window(2000, 1000));
  ASSERT_GT(rule().share(), 0.3);
  for (int i = 0; i < 2; ++i) decide(window(1000, 1000, 4));  // as many again could be served
  EXPECT_EQ(rule().share(), 0);
  EXPECT_EQ(rule().limits().levels, kLevels);
}

TEST_F(CinnamonRuleTest, it_goes_on_while_it_refuses_however_short_the_queue) {
  settings_.ki = 0.4;
  decide(window(2000, 1000));
  LoadWindow emptied = window(1500, 1000);
  emptied.queued_for = Nanos();
  const double before = rule().share();
  decide(emptied);
  EXPECT_GT(rule().share(), before);
}

TEST_F(CinnamonRuleTest, the_share_has_a_bound_and_leaves_it_at_once) {
  for (int i = 0; i < 20; ++i) decide(window(5000, 1000));
  EXPECT_EQ(rule().share(), settings_.most);
  decide(window(900, 1000));
  EXPECT_LT(rule().share(), settings_.most);
}

// Half of the arrivals, one of each level.
TEST_F(CinnamonRuleTest, the_least_urgent_of_the_arrivals_are_refused) {
  settings_.kp = 0.5;
  settings_.ki = 0;
  decide(window(2000, 1000));
  EXPECT_EQ(rule().limits().levels, kLevels / 2);
}

TEST_F(CinnamonRuleTest, a_share_counts_requests_not_levels) {
  settings_.kp = 0.5;
  settings_.ki = 0;
  by_level_.assign(kLevels, 0);
  by_level_[3] = by_level_[700] = kLevels / 2;
  decide(window(2000, 1000));
  EXPECT_GT(rule().limits().levels, 3u);
  EXPECT_LE(rule().limits().levels, 700u);
}

TEST(CinnamonRule, what_waits_too_long_is_refused_at_its_turn) {
  CinnamonSettings settings;
  settings.longest_wait = Nanos::millis(6);
  EXPECT_EQ(CinnamonRule(settings, 0).longest_wait(), Nanos::millis(6));
}

}  // namespace
}  // namespace rubato::overload
