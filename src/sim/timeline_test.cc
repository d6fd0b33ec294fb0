// SPDX-License-Identifier: Apache-2.0
#include "sim/timeline.h"

#include <gtest/gtest.h>

#include "sim/testing/runs.h"

namespace rubato::sim {
namespace {

constexpr Nanos kWindow = Nanos::millis(1);

Instant at(int64_t ms) { return Instant() + Nanos::millis(ms); }

TEST(Timeline, requests_are_in_the_window_in_which_they_were_sent) {
  Timeline timeline(kWindow, 2);
  timeline.note(at(2), 1, Nanos::micros(30));
  timeline.note(at(2) + kWindow - Nanos(1), 1, Nanos::micros(10));
  timeline.note(at(0), 0, Nanos::micros(5));
  ASSERT_EQ(timeline.windows(), 3u);
  EXPECT_EQ(timeline.of(0, 0).count(), 1u);
  EXPECT_TRUE(timeline.of(0, 1).empty());
  EXPECT_TRUE(timeline.of(1, 0).empty());
  EXPECT_EQ(timeline.of(2, 1).count(), 2u);
  EXPECT_EQ(timeline.of(2, 1).max(), Nanos::micros(30));
}

TEST(Timeline, a_long_run_gets_longer_windows_and_loses_nothing) {
  constexpr int64_t kLong = 5000;
  Timeline timeline(kWindow, 2);
  for (int64_t ms = 0; ms < kLong; ++ms) timeline.note(at(ms), 0, Nanos::micros(1));
  EXPECT_EQ(timeline.window(), kWindow * 16);  // 512 windows at most
  uint64_t sum = 0;
  for (size_t i = 0; i < timeline.windows(); ++i) sum += timeline.of(i, 0).count();
  EXPECT_EQ(sum, static_cast<uint64_t>(kLong));
  EXPECT_EQ(timeline.of(0, 0).count(), 16u);
}

TEST(Timeline, runs_of_different_windows_add_up) {
  Timeline small(kWindow, 1), large(kWindow, 1);
  small.note(at(3), 0, Nanos::micros(1));
  large.note(at(3), 0, Nanos::micros(1));
  large.note(at(1500), 0, Nanos::micros(1));
  for (Timeline* sum : {&small, &large}) {
    const Timeline other = sum == &small ? large : small;
    Timeline both = *sum;
    both.merge(other);
    EXPECT_EQ(both.window(), kWindow * 2);
    EXPECT_EQ(both.of(1, 0).count(), 2u);
    EXPECT_EQ(both.of(750, 0).count(), 1u);
  }
}

TEST(Timeline, a_run_tells_when_each_request_was_sent) {
  sim::Setup setup = ideal(2, "a:1us:50,b:2us:50", 0.5, 10'000);
  setup.warmup = 0;
  Timeline timeline(kWindow, 2);
  Watch watch;
  watch.done = [&](const Watch::Done& done) {
    timeline.note(done.sent, done.type, done.latency);
  };
  const Outcome outcome = simulate("fcfs", {}, setup, watch).value();
  for (size_t type = 0; type < 2; ++type) {
    Histogram all;
    for (size_t i = 0; i < timeline.windows(); ++i) all.merge(timeline.of(i, type));
    EXPECT_EQ(all.count(), outcome.types[type].latency.count());
    EXPECT_EQ(all.percentile(99), outcome.types[type].latency.percentile(99));
  }
  // 667 requests in each.
  ASSERT_EQ(static_cast<int64_t>(timeline.windows()),
            outcome.simulated.count() / kWindow.count() + 1);
  for (size_t i = 0; i + 1 < timeline.windows(); ++i) {
    EXPECT_NEAR(static_cast<double>(timeline.of(i, 0).count()), 333, 100) << i;
  }
}

}  // namespace
}  // namespace rubato::sim
