// SPDX-License-Identifier: Apache-2.0
//
// The policy of the tutorial (docs/HACKING.md) in the simulator, by its name and its option, as
// `rubato sim` runs it.
#include <gtest/gtest.h>

#include <string>

#include "sim/testing/runs.h"

namespace rubato::sim {
namespace {

Outcome simulated(const std::string& choices) {
  Result<Outcome> outcome =
      simulate("two-choices", {{"choices", choices}}, ideal(16, "exp-1", 0.9, 1'000'000));
  EXPECT_TRUE(outcome.ok()) << outcome.error();
  return outcome.ok() ? std::move(*outcome) : Outcome{};
}

TEST(Tutorial, the_second_choice_makes_waits_far_shorter) {
  const Outcome blind = simulated("1");
  const Outcome two = simulated("2");
  for (const Outcome* outcome : {&blind, &two}) {
    const RequestCounts counts = counts_of(*outcome);
    EXPECT_GT(outcome->measured, 0u);
    EXPECT_EQ(counts.done, outcome->measured);
  }
  // A random one is M/M/1: ten service times in the mean. The others are what the page says.
  EXPECT_NEAR(latency_of(blind).mean().micros(), 10, 1);
  EXPECT_NEAR(latency_of(blind).percentile(99).micros(), 47, 5);
  EXPECT_NEAR(latency_of(two).percentile(99).micros(), 9.9, 1);
}

TEST(Tutorial, the_option_keeps_its_range) {
  const auto outcome = simulate("two-choices", {{"choices", "0"}}, ideal(1, "exp-1", 0.5, 10));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error(), "choices takes a whole number from 1 to 64, not '0'");
}

}  // namespace
}  // namespace rubato::sim
