// SPDX-License-Identifier: Apache-2.0
#include "metrics/packed_histogram.h"

#include <gtest/gtest.h>

#include "base/prng.h"

namespace rubato {
namespace {

void expect_same(const Histogram& a, const Histogram& b) {
  EXPECT_EQ(a.count(), b.count());
  EXPECT_EQ(a.overflow(), b.overflow());
  EXPECT_EQ(a.sum_ns(), b.sum_ns());
  EXPECT_EQ(a.min(), b.min());
  EXPECT_EQ(a.max(), b.max());
  for (const double percent : {0.0, 1.0, 25.0, 50.0, 90.0, 99.9, 100.0}) {
    EXPECT_EQ(a.percentile(percent), b.percentile(percent)) << percent;
  }
}

Nanos draw(Prng& prng) { return Nanos(int64_t{prng.below(1000)} << prng.below(40)); }

TEST(PackedHistogram, answers_as_the_histogram_that_it_was_taken_from) {
  Prng prng(1);
  Histogram all, part;
  for (int i = 0; i < 1'000; ++i) {
    const Nanos value = draw(prng);
    all.record(value);
    part.record(value);
  }
  const PackedHistogram packed = PackedHistogram::take(part);
  expect_same(part, Histogram());
  EXPECT_EQ(packed.count(), all.count());
  EXPECT_EQ(packed.sum_ns(), all.sum_ns());
  for (int i = 0; i < 100; ++i) {
    const Nanos value = draw(prng);
    EXPECT_EQ(packed.count_at_most(value), all.count_at_most(value)) << value.count();
  }
  EXPECT_EQ(packed.count_at_most(Nanos(-1)), 0u);
  Histogram unpacked;
  packed.add_to(unpacked);
  expect_same(unpacked, all);
}

TEST(PackedHistogram, merges_as_histograms_do) {
  Prng prng(2);
  Histogram all, part;
  PackedHistogram sum;
  for (int round = 0; round < 20; ++round) {
    Histogram once;
    for (int i = 0; i < round * 5; ++i) {
      const Nanos value = draw(prng);
      once.record(value);
      part.record(value);  // the memory of the last round is used again
    }
    all.merge(once);
    sum.merge(PackedHistogram::take(part));
  }
  Histogram unpacked;
  sum.add_to(unpacked);
  expect_same(unpacked, all);
}

TEST(PackedHistogram, of_nothing_is_nothing) {
  Histogram none;
  PackedHistogram packed = PackedHistogram::take(none);
  packed.merge(PackedHistogram());
  EXPECT_TRUE(packed.empty());
  packed.add_to(none);
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(packed.count_at_most(Nanos(5)), 0u);
}

}  // namespace
}  // namespace rubato
