// SPDX-License-Identifier: Apache-2.0
#include "workload/sampling.h"

#include <gtest/gtest.h>

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
  const double want[] = {0x1.9f8ba0fede078p-1, 0x1.7a38c25c30c34p-3, 0x1.f9478f2a11e82p-1,
                         0x1.d73c1df3b99fcp-1, 0x1.6e9453ed54a88p-4};
  for (double w : want) EXPECT_EQ(sample_exponential(prng), w);
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
