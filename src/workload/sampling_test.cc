// SPDX-License-Identifier: Apache-2.0
#include "workload/sampling.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>

namespace rubato {
namespace {

uint64_t seed() {
  const char* given = std::getenv("RUBATO_SEED");
  const uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 0) : 42;
  ::testing::Test::RecordProperty("seed", std::to_string(value));
  std::printf("RUBATO_SEED=%llu\n", static_cast<unsigned long long>(value));
  return value;
}

TEST(Exponential, has_mean_and_variance_one) {
  Prng prng(seed());
  constexpr int kCount = 200000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = sample_exponential(prng);
    sum += x, squares += x * x;
  }
  const double mean = sum / kCount;
  EXPECT_NEAR(mean, 1.0, 0.015);
  EXPECT_NEAR(squares / kCount - mean * mean, 1.0, 0.04);
}

TEST(Exponential, tail_falls_as_it_should) {
  Prng prng(seed());
  constexpr int kCount = 200000;
  for (double at : {0.5, 1.0, 2.0, 4.0}) {
    int above = 0;
    for (int i = 0; i < kCount; ++i) above += sample_exponential(prng) > at;
    EXPECT_NEAR(above / static_cast<double>(kCount), std::exp(-at), 0.006) << at;
  }
}

TEST(Exponential, golden_values_are_the_same_everywhere) {
  Prng prng(1);
  const double want[] = {0x1.18c77d02d6b35p+0, 0x1.214614b0a2e19p+0, 0x1.720f8a4758f3bp-2,
                         0x1.0f7f8b226bfe1p-1, 0x1.d950293661ec9p-3};
  for (double w : want) EXPECT_EQ(sample_exponential(prng), w);
}

TEST(Elementary, agrees_with_the_library_to_fourteen_digits) {
  for (double x = -30; x < 30; x += 0.37) {
    EXPECT_NEAR(elementary::exponential(x) / std::exp(x), 1, 1e-14) << x;
    const double y = std::exp(x);
    EXPECT_NEAR(elementary::logarithm(y), std::log(y), 1e-14 * std::max(1.0, std::abs(x))) << y;
  }
}

TEST(Ziggurat, has_layers_of_equal_area_that_end_at_the_peak) {
  const auto& z = internal::kZiggurat;
  for (size_t i = 1; i < internal::Ziggurat::kLayers; ++i) {
    EXPECT_NEAR(z.x[i] * (z.y[i + 1] - z.y[i]), internal::Ziggurat::kArea, 1e-12) << i;
  }
}

TEST(Exponential, every_part_of_it_holds_its_share) {
  Prng prng(seed());
  constexpr int kCount = 2'000'000;
  std::array<int, 12> counts{};
  for (int i = 0; i < kCount; ++i) {
    ++counts[std::min<size_t>(11, static_cast<size_t>(sample_exponential(prng)))];
  }
  for (int k = 0; k < 12; ++k) {
    const double expected = kCount * (std::exp(-k) - (k < 11 ? std::exp(-k - 1) : 0));
    EXPECT_NEAR(counts[static_cast<size_t>(k)], expected, 5 * std::sqrt(expected)) << k;
  }
}

TEST(Normal, has_mean_nought_variance_one_and_its_tails) {
  Prng prng(seed());
  constexpr int kCount = 500'000;
  double sum = 0, squares = 0;
  int beyond_two = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = sample_normal(prng);
    sum += x, squares += x * x;
    beyond_two += std::abs(x) > 2;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.007);
  EXPECT_NEAR(squares / kCount, 1, 0.01);
  EXPECT_NEAR(beyond_two / double{kCount}, 0.0455, 0.0015);
}

TEST(AliasChoice, follows_the_weights) {
  Prng prng(seed());
  const AliasChoice choice({5, 0, 1, 2, 2});
  constexpr int kCount = 200'000;
  std::array<int, 5> counts{};
  for (int i = 0; i < kCount; ++i) ++counts[choice.pick(prng)];
  const double expected[] = {0.5, 0, 0.1, 0.2, 0.2};
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(counts[i] / double{kCount}, expected[i], 0.006) << i;
}

TEST(WeightedChoice, follows_the_weights) {
  Prng prng(seed());
  const WeightedChoice choice({1, 0, 3});
  constexpr int kCount = 100000;
  int counts[3] = {};
  for (int i = 0; i < kCount; ++i) ++counts[choice.pick(prng)];
  EXPECT_NEAR(counts[0] / double{kCount}, 0.25, 0.01);
  EXPECT_EQ(counts[1], 0);
}

}  // namespace
}  // namespace rubato
