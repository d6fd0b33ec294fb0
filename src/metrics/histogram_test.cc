// SPDX-License-Identifier: Apache-2.0
#include "metrics/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "metrics/counter.h"

namespace rubato {
namespace {

TEST(Buckets, every_bucket_holds_its_own_low_and_high) {
  for (size_t i = 0; i < buckets::kCount; ++i) {
    EXPECT_EQ(buckets::index_of(buckets::low_of(i)), i);
    EXPECT_EQ(buckets::index_of(buckets::low_of(i + 1) - 1), i);
    EXPECT_EQ(buckets::index_of(buckets::middle_of(i)), i);
  }
  EXPECT_EQ(buckets::low_of(buckets::kCount), buckets::kTop);
}

TEST(Buckets, the_middle_is_within_the_promised_error) {
  for (size_t i = 0; i < buckets::kCount; ++i) {
    const double low = static_cast<double>(buckets::low_of(i));
    const double middle = static_cast<double>(buckets::middle_of(i));
    const double high = static_cast<double>(buckets::low_of(i + 1) - 1);
    const double bound = buckets::low_of(i) < buckets::kFineTop ? 0x1p-7 : 0x1p-4;
    EXPECT_LE(middle - low, bound * std::max(low, 1.0)) << i;
    EXPECT_LE(high - middle, bound * std::max(high, 1.0)) << i;
  }
}

TEST(Histogram, is_all_zero_before_the_first_record) {
  const Histogram h;
  EXPECT_TRUE(h.empty());
  EXPECT_EQ(h.percentile(99), Nanos(0));
  EXPECT_EQ(h.min(), Nanos(0));
  EXPECT_EQ(h.max(), Nanos(0));
  EXPECT_EQ(h.mean(), Nanos(0));
  EXPECT_EQ(h.count_at_most(Nanos::seconds(1)), 0u);
}

TEST(Histogram, small_values_are_exact) {
  Histogram h;
  for (int64_t v = 1; v <= 100; ++v) h.record(Nanos(v));
  EXPECT_EQ(h.percentile(50), Nanos(50));
  EXPECT_EQ(h.percentile(99), Nanos(99));
  EXPECT_EQ(h.percentile(100), Nanos(100));
  EXPECT_EQ(h.percentile(0), Nanos(1));
  EXPECT_EQ(h.min(), Nanos(1));
  EXPECT_EQ(h.max(), Nanos(100));
  EXPECT_DOUBLE_EQ(h.mean_ns(), 50.5);
  EXPECT_EQ(h.count_at_most(Nanos(10)), 10u);
}

TEST(Histogram, percentiles_agree_with_a_sorted_list) {
  Prng prng(7);
  Histogram h;
  std::vector<int64_t> values;
  for (int i = 0; i < 20000; ++i) {
    const int64_t v = static_cast<int64_t>(std::pow(10.0, 1 + 8 * prng.uniform()));
    values.push_back(v);
    h.record(Nanos(v));
  }
  std::sort(values.begin(), values.end());
  for (double p : {1.0, 10.0, 50.0, 90.0, 99.0, 99.9}) {
    const size_t rank = static_cast<size_t>(std::ceil(p / 100 * 20000)) - 1;
    const double want = static_cast<double>(values[rank]);
    EXPECT_NEAR(static_cast<double>(h.percentile(p).count()), want, want / 128 + 1) << p;
  }
}

TEST(Histogram, saturates_and_counts_what_does_not_fit) {
  Histogram h;
  h.record(Nanos::seconds(3600));
  EXPECT_EQ(h.overflow(), 0u);
  h.record(Nanos::max());
  h.record(Nanos(-5));
  EXPECT_EQ(h.overflow(), 1u);
  EXPECT_EQ(h.count(), 3u);
  EXPECT_EQ(h.min(), Nanos(0));
  EXPECT_EQ(h.max(), Nanos(static_cast<int64_t>(buckets::kTop) - 1));
}

TEST(Histogram, merge_equals_recording_into_one) {
  Histogram a, b, both;
  for (int64_t v = 1; v < 5000; v += 3) {
    a.record(Nanos(v)), both.record(Nanos(v));
    b.record(Nanos(v * 1000)), both.record(Nanos(v * 1000));
  }
  Histogram merged;
  merged.merge(a);
  merged.merge(b);
  merged.merge(Histogram());
  EXPECT_EQ(merged.count(), both.count());
  EXPECT_EQ(merged.percentile(99), both.percentile(99));
  EXPECT_EQ(merged.max(), both.max());
  EXPECT_DOUBLE_EQ(merged.mean_ns(), both.mean_ns());
}

TEST(Histogram, since_holds_only_what_came_later) {
  Histogram h;
  for (int i = 0; i < 10; ++i) h.record(Nanos::micros(5));
  const Histogram earlier = h;
  for (int i = 0; i < 20; ++i) h.record(Nanos::micros(50));
  const Histogram delta = h.since(earlier);
  EXPECT_EQ(delta.count(), 20u);
  EXPECT_NEAR(delta.percentile(50).micros(), 50, 0.5);
  EXPECT_NEAR(delta.mean_ns(), 50000, 1);
}

TEST(Histogram, buckets_are_visited_in_order_and_sum_to_the_count) {
  Histogram h;
  for (int64_t v : {10, 1000, 1001, 100000}) h.record(Nanos(v));
  uint64_t sum = 0;
  Nanos last(-1);
  h.for_each_bucket([&](Nanos low, Nanos high, uint64_t count) {
    EXPECT_GT(low, last);
    EXPECT_GT(high, low);
    last = low;
    sum += count;
  });
  EXPECT_EQ(sum, 4u);
}

TEST(SharedHistogram, snapshot_equals_what_was_recorded) {
  SharedHistogram shared;
  EXPECT_FALSE(shared.used());
  EXPECT_TRUE(shared.snapshot().empty());
  Histogram plain;
  for (int64_t v = 1; v < 100000; v += 7) shared.record(Nanos(v)), plain.record(Nanos(v));
  shared.record(Nanos::max()), plain.record(Nanos::max());
  const Histogram copy = shared.snapshot();
  EXPECT_EQ(copy.count(), plain.count());
  EXPECT_EQ(copy.overflow(), 1u);
  EXPECT_EQ(copy.percentile(90), plain.percentile(90));
  EXPECT_EQ(copy.min(), plain.min());
  EXPECT_EQ(copy.max(), plain.max());
  EXPECT_DOUBLE_EQ(copy.mean_ns(), plain.mean_ns());
}

TEST(SharedHistogram, readers_see_counts_that_only_grow) {
  SharedHistogram shared;
  constexpr uint64_t kRecords = 200000;
  std::thread writer([&] {
    for (uint64_t i = 0; i < kRecords; ++i) shared.record(Nanos(static_cast<int64_t>(i % 1000)));
  });
  uint64_t last = 0;
  while (last < kRecords) {
    const uint64_t now = shared.snapshot().count();
    ASSERT_GE(now, last);
    last = now;
    std::this_thread::yield();
  }
  writer.join();
  EXPECT_EQ(shared.snapshot().count(), kRecords);
}

TEST(Counter, one_writer_is_read_from_another_thread) {
  Counter counter;
  Peak peak;
  std::thread writer([&] {
    for (uint64_t i = 0; i < 1000; ++i) ++counter, peak.raise_to(i);
    counter += 5;
  });
  writer.join();
  EXPECT_EQ(counter.value(), 1005u);
  EXPECT_EQ(peak.value(), 999u);
}

}  // namespace
}  // namespace rubato
