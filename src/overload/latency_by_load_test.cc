// SPDX-License-Identifier: Apache-2.0
#include "overload/latency_by_load.h"

#include <gtest/gtest.h>

#include "overload/one_thread.h"

namespace rubato::overload {
namespace {

using Latencies = LatencyByLoad<OneThread>;

constexpr Instant kNow{5'000'000'000};

TEST(LatencyByLoad, says_nothing_before_anything_has_ended) {
  EXPECT_EQ(Latencies().expected(0, kNow), Nanos());
}

TEST(LatencyByLoad, is_the_median_of_what_came_under_such_a_load) {
  Latencies latencies;
  for (const int64_t us : {100, 110, 120, 9000, 130}) latencies.ended(2, Nanos::micros(us), kNow);
  for (const int64_t us : {700, 800, 900}) latencies.ended(40, Nanos::micros(us), kNow);
  EXPECT_EQ(latencies.expected(2, kNow), Nanos::micros(120));
  EXPECT_EQ(latencies.expected(40, kNow), Nanos::micros(800));
}

TEST(LatencyByLoad, takes_the_nearest_load_that_it_knows) {
  Latencies latencies;
  latencies.ended(0, Nanos::micros(10), kNow);
  latencies.ended(1000, Nanos::micros(500), kNow);
  EXPECT_EQ(latencies.expected(3, kNow), Nanos::micros(10));
  EXPECT_EQ(latencies.expected(500, kNow), Nanos::micros(500));
  EXPECT_EQ(latencies.expected(1'000'000'000, kNow), Nanos::micros(500));
  EXPECT_EQ(latencies.expected(-1, kNow), Nanos::micros(10));
}

TEST(LatencyByLoad, forgets_what_is_a_second_old_and_what_was_before_the_last_sixteen) {
  Latencies latencies;
  for (int i = 0; i < 16; ++i) latencies.ended(1, Nanos::millis(9), kNow);
  for (int i = 0; i < 16; ++i) latencies.ended(1, Nanos::millis(1), kNow);
  EXPECT_EQ(latencies.expected(1, kNow), Nanos::millis(1));
  latencies.ended(2, Nanos::millis(4), kNow + Nanos::millis(1500));
  EXPECT_EQ(latencies.expected(1, kNow + Nanos::millis(1500)), Nanos::millis(4));
  EXPECT_EQ(latencies.expected(1, kNow + Nanos::seconds(3)), Nanos());
}

TEST(LatencyByLoad, keeps_loads_apart_that_differ_by_a_quarter) {
  Latencies latencies;
  for (const int64_t load : {4, 5, 7, 8, 10, 12, 14, 16, 20, 24, 28, 64, 80, 96, 112}) {
    latencies.ended(load, Nanos::micros(load), kNow);
  }
  for (const int64_t load : {4, 5, 7, 8, 10, 12, 14, 16, 20, 24, 28, 64, 80, 96, 112}) {
    EXPECT_EQ(latencies.expected(load, kNow), Nanos::micros(load)) << load;
  }
}

TEST(LatencyByLoad, a_latency_too_long_to_note_counts_as_the_longest) {
  Latencies latencies;
  latencies.ended(0, Nanos::seconds(60), kNow);
  EXPECT_EQ(latencies.expected(0, kNow), Nanos(UINT32_MAX));
}

}  // namespace
}  // namespace rubato::overload
