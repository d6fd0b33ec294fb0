// SPDX-License-Identifier: Apache-2.0
//
// Against Netflix' concurrency-limits, Gradient2Limit.
#include "overload/gradient2_rule.h"

#include <gtest/gtest.h>

#include <vector>

namespace rubato::overload {
namespace {

// Buckets of their own.
constexpr Nanos kUsual(64), kTwice(128), kThrice(192);

class Gradient2RuleTest : public ::testing::Test {
 protected:
  // A window in which `inside` requests were inside on average, each for that time.
  void decide(Nanos latency, int64_t inside) {
    std::vector<int64_t> latencies(buckets::kCount);
    LoadWindow window{.length = Nanos(64'000), .waited = Nanos(), .queued_for = Nanos()};
    const size_t index = buckets::index_of(static_cast<uint64_t>(latency.count()));
    latencies[index] = inside * window.length.count() / latency.count();
    window.latencies = latencies;
    rule_.decide(window, Instant(1));
  }
  void decide_often(int times, Nanos latency) {
    for (int i = 0; i < times; ++i) decide(latency, limit());
  }
  int64_t limit() const { return rule_.limits().underway; }

  Gradient2Settings settings_;
  Gradient2Rule rule_{settings_, 1};
};

TEST_F(Gradient2RuleTest, begins_at_the_least_limit_and_measures_nothing_under_another) {
  EXPECT_EQ(limit(), settings_.least);
  EXPECT_FALSE(rule_.window().only_new);
  EXPECT_EQ(rule_.window().length, settings_.update_every);
  EXPECT_EQ(rule_.window().requests, kUnlimited);
}

// Of what it was, 0.8, and of what it should be, 0.2: 4 requests more.
TEST_F(Gradient2RuleTest, a_limit_that_is_used_grows_while_latency_is_as_usual) {
  decide(kUsual, 20);
  decide(kUsual, 20);
  EXPECT_EQ(limit(), 21) << "20 + 0.8 + 0.8";
  decide_often(2000, kUsual);
  EXPECT_EQ(limit(), settings_.most);
}

TEST_F(Gradient2RuleTest, a_limit_of_which_less_than_half_is_used_stays) {
  for (int i = 0; i < 50; ++i) decide(kUsual, 9);
  EXPECT_EQ(limit(), settings_.least);
  decide_often(1000, kUsual);
  for (int i = 0; i < 50; ++i) decide(kThrice, settings_.most / 2 - 1);
  EXPECT_EQ(limit(), settings_.most) << "nor does it fall";
}

// The gradient is 1.5 / 3, for a while: of the 200 a tenth is taken off, but for 0.8.
TEST_F(Gradient2RuleTest, a_limit_falls_while_latency_is_beyond_what_is_tolerated) {
  decide_often(1000, kUsual);
  ASSERT_EQ(limit(), settings_.most);
  decide_often(1, kThrice);
  EXPECT_NEAR(static_cast<double>(limit()), 200 - 20 + 0.8, 1);
  decide_often(20, kThrice);
  EXPECT_LT(limit(), 60);
}

TEST_F(Gradient2RuleTest, latency_within_the_tolerance_is_no_reason) {
  decide_often(1000, kUsual);
  decide_often(20, Nanos(95));
  EXPECT_EQ(limit(), settings_.most);
}

// The first ten windows count alike, later ones by 2 in 601.
TEST_F(Gradient2RuleTest, what_is_usual_is_an_average_that_changes_slowly) {
  for (int i = 0; i < 10; ++i) decide(i % 2 == 0 ? kUsual : kThrice, 1);
  EXPECT_NEAR(static_cast<double>(rule_.usual_latency().count()), 128, 2);
  decide(Nanos(128 + 601), 1);
  EXPECT_NEAR(static_cast<double>(rule_.usual_latency().count()), 130, 4);
}

// A latency that stays high becomes the usual one; one that fell to less than half, soon.
TEST_F(Gradient2RuleTest, takes_on_what_latency_has_become) {
  decide_often(20, kUsual);
  decide_often(3000, kThrice);
  EXPECT_EQ(limit(), settings_.most);
  decide_often(20, Nanos(32));
  EXPECT_LT(rule_.usual_latency(), kTwice);
}

TEST_F(Gradient2RuleTest, a_window_without_answers_changes_nothing) {
  decide(kUsual, 20);
  const int64_t before = limit();
  decide(kUsual, 0);
  EXPECT_EQ(limit(), before);
}

}  // namespace
}  // namespace rubato::overload
