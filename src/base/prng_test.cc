// SPDX-License-Identifier: Apache-2.0
#include "base/prng.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

constexpr int kDraws = 100'000;

TEST(Prng, same_seed_gives_the_same_numbers) {
  Prng a(42);
  Prng b(42);
  for (int i = 0; i < 1'000; ++i) ASSERT_EQ(a.next(), b.next());
}

TEST(Prng, seeds_that_differ_by_one_bit_give_other_numbers) {
  Prng a(2);
  Prng b(3);
  int equal = 0;
  for (int i = 0; i < 1'000; ++i) equal += a.next() == b.next() ? 1 : 0;
  EXPECT_EQ(equal, 0);
}

TEST(Prng, works_at_compile_time) {
  constexpr uint64_t first = Prng(7).next();
  EXPECT_EQ(first, Prng(7).next());
}

TEST(Prng, below_stays_below_and_reaches_every_value) {
  Prng random(1);
  std::array<int, 7> seen{};
  for (int i = 0; i < kDraws; ++i) {
    const uint32_t value = random.below(7);
    ASSERT_LT(value, 7u);
    ++seen[value];
  }
  // Seven standard deviations of a binomial around the mean of kDraws / 7.
  for (const int count : seen) EXPECT_NEAR(count, kDraws / 7, 7 * 111);
}

TEST(Prng, below_one_is_always_zero) {
  Prng random(1);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(random.below(1), 0u);
}

TEST(Prng, uniform_lies_in_the_unit_interval_around_one_half) {
  Prng random(9);
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.01);
}

}  // namespace
}  // namespace rubato
