// SPDX-License-Identifier: Apache-2.0
//
// Against Envoy's documentation, "Adaptive Concurrency", Gradient Controller.
#include "overload/gradient_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace rubato::overload {
namespace {

class GradientRuleTest : public ::testing::Test {
 protected:
  // A window with so many finished requests of that latency.
  void decide(Nanos latency, int64_t finished = 100) {
    std::vector<int64_t> latencies(buckets::kCount);
    latencies[buckets::index_of(static_cast<uint64_t>(latency.count()))] = finished;
    LoadWindow window{.length = settings_.update_every, .waited = Nanos(), .queued_for = Nanos()};
    window.latencies = latencies;
    now_ = now_ + window.length;
    rule_.decide(window, now_);
  }
  int64_t limit() const { return rule_.limits().underway; }
  bool measures() const { return rule_.window().only_new; }

  GradientSettings settings_;
  GradientRule rule_{settings_, 1};
  Instant now_{1'000'000'000};
};

constexpr Nanos kLeastLatency = Nanos(64);  // a bucket of its own

TEST_F(GradientRuleTest, begins_by_measuring_the_least_latency_under_the_least_limit) {
  EXPECT_TRUE(measures());
  EXPECT_EQ(rule_.window().requests, settings_.measure_requests);
  EXPECT_EQ(rule_.window().length, Nanos::max());
  EXPECT_EQ(limit(), settings_.least);
  decide(kLeastLatency);
  EXPECT_FALSE(measures());
  EXPECT_EQ(rule_.least_latency(), kLeastLatency);
  EXPECT_EQ(rule_.window().length, settings_.update_every);
}

// new limit = gradient * limit + sqrt(gradient * limit); the gradient is at most 2.
TEST_F(GradientRuleTest, a_limit_follows_the_gradient_and_has_room_for_a_burst) {
  decide(kLeastLatency);
  decide(Nanos(32));  // half the least: gradient 2.5
  EXPECT_EQ(limit(), static_cast<int64_t>(2 * 3 + std::sqrt(2.0 * 3)));
  const int64_t before = limit();
  decide(Nanos(80));  // as much as the buffer allows: gradient 1
  EXPECT_EQ(limit(), before + static_cast<int64_t>(std::sqrt(static_cast<double>(before))));
}

TEST_F(GradientRuleTest, a_limit_at_most_halves_whatever_the_latency) {
  decide(kLeastLatency);
  for (int i = 0; i < 10; ++i) decide(Nanos(40));
  const auto before = static_cast<double>(limit());
  ASSERT_GT(before, 100);
  decide(Nanos::seconds(10));
  EXPECT_EQ(limit(), static_cast<int64_t>(before / 2 + std::sqrt(before / 2)));
}

TEST_F(GradientRuleTest, a_limit_stays_within_its_bounds) {
  decide(kLeastLatency);
  for (int i = 0; i < 100; ++i) decide(Nanos(32));
  EXPECT_EQ(limit(), settings_.most);
  for (int i = 0; i < 12; ++i) decide(Nanos::seconds(10));
  EXPECT_GE(limit(), settings_.least);
}

TEST_F(GradientRuleTest, a_window_without_answers_changes_nothing) {
  decide(kLeastLatency);
  decide(Nanos(32));
  const int64_t before = limit();
  decide(Nanos(32), 0);
  EXPECT_EQ(limit(), before);
}

// What was the limit before goes on after it.
TEST_F(GradientRuleTest, measures_again_after_the_interval_and_goes_on_from_where_it_was) {
  decide(kLeastLatency);
  const Instant measured = now_;
  int64_t before = 0;
  while (!measures()) {
    decide(Nanos(40));
    before = std::max(before, limit());
  }
  EXPECT_GE(now_ - measured, settings_.measure_every);
  EXPECT_LE(now_ - measured, settings_.measure_every * 115 / 100 + settings_.update_every);
  EXPECT_EQ(limit(), settings_.least);
  decide(Nanos(100));
  EXPECT_EQ(rule_.least_latency(), Nanos(100));
  EXPECT_EQ(limit(), before);
}

TEST(GradientRule, measures_again_when_five_windows_left_it_at_its_least) {
  GradientSettings settings;
  settings.least = 10;
  GradientRule rule(settings, 1);
  std::vector<int64_t> latencies(buckets::kCount);
  LoadWindow window{.length = settings.update_every, .waited = Nanos(), .queued_for = Nanos()};
  window.latencies = latencies;
  const auto decide = [&](Nanos latency) {
    std::fill(latencies.begin(), latencies.end(), 0);
    latencies[buckets::index_of(static_cast<uint64_t>(latency.count()))] = 50;
    rule.decide(window, Instant(1));
  };
  decide(kLeastLatency);
  for (int i = 0; i < 4; ++i) decide(Nanos::seconds(1));  // 5 + sqrt(5) is below the least
  EXPECT_FALSE(rule.window().only_new);
  decide(Nanos::seconds(1));
  EXPECT_TRUE(rule.window().only_new);
}

TEST(GradientRule, goes_by_the_percentile_that_it_is_told) {
  for (const double percentile : {50.0, 90.0}) {
    GradientSettings settings;
    settings.percentile = percentile;
    GradientRule rule(settings, 1);
    std::vector<int64_t> latencies(buckets::kCount);
    latencies[10] = 80;
    latencies[100] = 20;
    LoadWindow window{.length = Nanos(1), .waited = Nanos(), .queued_for = Nanos()};
    window.latencies = latencies;
    rule.decide(window, Instant(1));
    EXPECT_EQ(rule.least_latency(), Nanos(percentile > 80 ? 100 : 10));
  }
}

}  // namespace
}  // namespace rubato::overload
