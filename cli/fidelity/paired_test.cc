// SPDX-License-Identifier: Apache-2.0
#include "cli/fidelity/paired.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/prng.h"

namespace rubato::cli {
namespace {

// Exponential latencies of mean 100 us, the same on both hosts but for a factor and noise.
std::vector<Pair> pairs_of(size_t count, double factor, double noise) {
  Prng prng(1);
  std::vector<Pair> pairs;
  for (size_t i = 0; i < count; ++i) {
    const double latency = -std::log(1 - prng.uniform()) * 1e5;
    const double other = latency * factor * (1 + noise * (prng.uniform() - 0.5));
    pairs.push_back({Nanos(static_cast<int64_t>(other)), Nanos(static_cast<int64_t>(latency))});
  }
  return pairs;
}

TEST(Paired, equal_hosts_agree_exactly) {
  const auto figure = compare_percentile(pairs_of(10'000, 1, 0), 99);
  ASSERT_TRUE(figure);
  EXPECT_EQ(figure->live, figure->simulated);
  EXPECT_NEAR(static_cast<double>(figure->live.count()), 1e5 * std::log(100), 2e4);
  EXPECT_EQ(figure->ratio, 1);
  EXPECT_NEAR(figure->within, 0, 1e-6);
  EXPECT_TRUE(figure->agrees(0));
}

// Latencies that vary by far more than 3 % do not hide it, since both hosts have the same ones.
TEST(Paired, three_percent_more_show_beside_noise) {
  for (const double percent : {50.0, 99.0}) {
    const auto figure = compare_percentile(pairs_of(50'000, 1.03, 0.05), percent);
    ASSERT_TRUE(figure);
    EXPECT_NEAR(figure->ratio, 1.03, 0.008) << percent;
    EXPECT_LT(figure->within, 0.015) << percent;
    EXPECT_FALSE(figure->agrees(0.015)) << percent;
  }
}

// What differs by chance alone agrees, in nearly all of the draws.
TEST(Paired, the_interval_covers_chance) {
  Prng prng(2);
  int agreed = 0;
  for (int draw = 0; draw < 100; ++draw) {
    std::vector<Pair> pairs;
    for (int i = 0; i < 2'000; ++i) {
      pairs.push_back({Nanos(1 + prng.below(100'000)), Nanos(1 + prng.below(100'000))});
    }
    if (compare_percentile(pairs, 50)->agrees(0)) ++agreed;
  }
  EXPECT_GE(agreed, 85);
}

TEST(Paired, too_few_pairs_give_no_figure) {
  EXPECT_FALSE(compare_percentile({}, 50));
  EXPECT_FALSE(compare_percentile(pairs_of(3'900, 1, 0), 99));
  EXPECT_TRUE(compare_percentile(pairs_of(4'100, 1, 0), 99));
}

}  // namespace
}  // namespace rubato::cli
