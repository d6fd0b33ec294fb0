// SPDX-License-Identifier: Apache-2.0
#include "overload/limiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "overload/testing/counting_platform.h"

namespace rubato::overload {
namespace {

uint32_t level_of(uint8_t priority, uint64_t user, Instant now) {
  return overload::level_of({.priority = priority, .user = user}, 0, now);
}

TEST(Levels, a_tier_is_above_all_cohorts_of_the_next) {
  for (uint64_t user = 1; user < 1000; ++user) {
    EXPECT_LT(level_of(0, user, Instant()), kCohorts);
    const uint32_t last = level_of(limits::kPriorityLevels - 1, user, Instant());
    EXPECT_GE(last, kLevels - kCohorts);
    EXPECT_EQ(last, level_of(255, user, Instant())) << "priorities beyond the last are the last";
  }
}

TEST(Levels, users_are_in_all_cohorts_and_in_others_an_hour_later) {
  std::set<uint32_t> cohorts;
  int same = 0;
  const Instant later(Nanos::seconds(3600).count());
  for (uint64_t user = 1; user <= 2000; ++user) {
    const uint32_t level = level_of(0, user, Instant());
    cohorts.insert(level);
    EXPECT_EQ(level, level_of(0, user, later - Nanos(1)));
    same += level == level_of(0, user, later) ? 1 : 0;
  }
  EXPECT_EQ(cohorts.size(), kCohorts);
  EXPECT_LT(same, 60);  // one in 128 is 16
}

TEST(Levels, what_the_client_says_of_its_user_counts_before_the_connection) {
  const Urgency said{.priority = 2, .cohort = 1, .user = 77};
  EXPECT_EQ(overload::level_of(said, 0, Instant()), 2 * kCohorts);
  EXPECT_EQ(overload::level_of({.priority = 7, .cohort = kCohorts, .user = 77}, 0, Instant()),
            kLevels - 1);
  const Urgency nobody{.priority = 0, .cohort = 0, .user = 0};
  EXPECT_EQ(overload::level_of(nobody, 5, Instant()), level_of(0, 5, Instant()));
}

class LimiterTest : public ::testing::Test {
 protected:
  using OneLimiter = Limiter<OneThread>;

  Instant after(Nanos time) { return now_ = now_ + time; }
  // A request that is let in comes, starts and ends after that long.
  bool serve(OneLimiter& limiter, Nanos latency, uint64_t user = 1) {
    const Instant arrived = now_;
    if (!limiter.admits(0, {.user = user}, arrived)) return false;
    EXPECT_TRUE(limiter.starts(0, Nanos(), now_));
    limiter.finished(0, arrived, after(latency));
    return true;
  }

  Instant now_{Nanos::seconds(5).count()};
};

TEST_F(LimiterTest, by_gradient_no_more_than_the_limit_are_inside) {
  OneLimiter limiter(GradientSettings{}, 1, 1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limiter.admits(0, {.user = 1}, now_));
  EXPECT_FALSE(limiter.admits(0, {.user = 1}, now_));
  EXPECT_TRUE(limiter.limits());
  limiter.starts(0, Nanos(), now_);
  limiter.finished(0, now_, after(Nanos(100)));
  EXPECT_TRUE(limiter.admits(0, {.user = 1}, now_));
  limiter.leaves(now_);  // one that was refused before its start
  EXPECT_EQ(limiter.inside(), 2);
}

// The first window ends after 50 of them, the next ones in time: the limit doubles, and more.
TEST_F(LimiterTest, by_gradient_a_window_ends_with_its_requests_and_then_in_time) {
  OneLimiter limiter(GradientSettings{}, 1, 1);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(serve(limiter, Nanos(100)));
  EXPECT_EQ(limiter.report().decisions, 1u);
  EXPECT_TRUE(serve(limiter, Nanos(50)));
  after(Nanos::millis(100));
  EXPECT_TRUE(serve(limiter, Nanos(50)));
  EXPECT_EQ(limiter.report().decisions, 2u);
  EXPECT_EQ(limiter.report().limits.underway, 8);
}

// Such a one saw the limit before.
TEST_F(LimiterTest, by_gradient_requests_from_before_a_measurement_do_not_count_in_it) {
  GradientSettings settings;
  settings.measure_every = Nanos::millis(100);
  settings.jitter = 0;
  settings.measure_requests = 2;
  OneLimiter limiter(settings, 1, 1);
  const Instant before = now_;
  ASSERT_TRUE(limiter.admits(0, {.user = 1}, before));
  limiter.starts(0, Nanos(), now_);
  for (int i = 0; i < 2; ++i) serve(limiter, Nanos(100));
  ASSERT_EQ(limiter.report().decisions, 1u);
  after(Nanos::millis(101));
  limiter.look(now_);  // the measurement is due
  ASSERT_EQ(limiter.report().decisions, 2u);
  serve(limiter, Nanos(100));
  limiter.finished(0, before, now_);
  EXPECT_EQ(limiter.report().decisions, 2u);
  serve(limiter, Nanos(100));
  EXPECT_EQ(limiter.report().decisions, 3u);
}

TEST_F(LimiterTest, by_cinnamon_what_has_waited_too_long_does_not_start) {
  CinnamonSettings settings;
  settings.longest_wait = Nanos::millis(1);
  OneLimiter limiter(settings, 1, 1);
  ASSERT_TRUE(limiter.admits(0, {.user = 1}, now_));
  EXPECT_TRUE(limiter.starts(0, Nanos::millis(1), now_));
  ASSERT_TRUE(limiter.admits(0, {.user = 1}, now_));
  EXPECT_FALSE(limiter.starts(0, Nanos::millis(1) + Nanos(1), now_));
  limiter.leaves(now_);
  EXPECT_EQ(limiter.inside(), 1);
}

// 2000 users come at once, and wait for too long.
TEST_F(LimiterTest, by_dagor_the_least_urgent_are_refused_and_the_same_ones_each_time) {
  OneLimiter limiter(DagorSettings{}, 1, 1);
  const auto come = [&](Nanos wait) {
    std::set<uint64_t> let_in;
    for (uint64_t user = 1; user <= 2000; ++user) {
      if (!limiter.admits(0, {.user = user}, now_)) continue;
      let_in.insert(user);
      limiter.starts(0, wait, now_);
      limiter.finished(0, now_, now_);
    }
    after(Nanos::seconds(1));
    return let_in;
  };
  EXPECT_EQ(come(Nanos::millis(30)).size(), 2000u);
  const std::set<uint64_t> some = come(Nanos::millis(10));
  EXPECT_NEAR(static_cast<double>(some.size()), 1900, 20);
  const std::set<uint64_t> more = come(Nanos::millis(10));
  EXPECT_GT(more.size(), some.size());
  EXPECT_TRUE(std::includes(more.begin(), more.end(), some.begin(), some.end()));
}

TEST_F(LimiterTest, requests_without_a_user_are_spread_over_all_cohorts) {
  OneLimiter limiter(DagorSettings{}, 1, 1);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(limiter.admits(0, Urgency(), now_));
    limiter.starts(0, Nanos::millis(30), now_);
    limiter.finished(0, now_, now_);
  }
  after(Nanos::seconds(1));
  int let_in = 0;
  for (int i = 0; i < 1000; ++i) let_in += limiter.admits(0, Urgency(), now_) ? 1 : 0;
  EXPECT_NEAR(let_in, 950, 40);
}

TEST_F(LimiterTest, a_quiet_server_looks_and_forgives) {
  DagorSettings settings;
  settings.beta = 1;
  OneLimiter limiter(settings, 1, 1);
  for (uint64_t user = 1; user <= 2000; ++user) {
    ASSERT_TRUE(limiter.admits(0, {.user = user}, now_));
    limiter.starts(0, Nanos::millis(30), now_);
    limiter.finished(0, now_, now_);
  }
  limiter.look(after(Nanos::seconds(2)));  // with the start of the last one
  ASSERT_TRUE(limiter.limits());
  for (uint64_t user = 1; user <= 10; ++user) serve(limiter, Nanos(1), user);
  EXPECT_TRUE(limiter.limits());
  limiter.look(after(Nanos::seconds(2)));
  EXPECT_FALSE(limiter.limits());
}

// Only the counts that all need are written by several.
TEST(LimiterLines, workers_write_lines_of_their_own_but_for_what_limits_them_together) {
  using testing::Writes;
  auto limiter = std::make_unique<Limiter<testing::CountingPlatform>>(DagorSettings{}, 4, 1);
  limiter->look(Instant(1));
  Writes::all().reset();
  for (uint32_t worker = 0; worker < 4; ++worker) {
    Writes::all().play(worker);
    ASSERT_TRUE(limiter->admits(worker, {.user = worker + 1}, Instant(2)));
    ASSERT_TRUE(limiter->starts(worker, Nanos(1), Instant(2)));
    limiter->finished(worker, Instant(2), Instant(3));
  }
  Writes::all().play(Writes::kNobody);
  EXPECT_EQ(Writes::all().shared_lines().size(), 1u);
}

}  // namespace
}  // namespace rubato::overload
