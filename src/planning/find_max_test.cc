// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "planning/find_max.h"
#include "planning/search.h"
#include "workload/mix.h"

namespace rubato::planning {
namespace {

TEST(BinarySearch, finds_every_limit_in_as_many_steps_as_the_logarithm) {
  for (uint32_t most : {1u, 2u, 7u, 100u, 1000u}) {
    for (uint32_t limit = 0; limit <= most; ++limit) {
      uint32_t calls = 0;
      const auto found = binary_search(most, [&](uint32_t k) -> std::optional<bool> {
        EXPECT_GE(k, 1u);
        EXPECT_LE(k, most);
        ++calls;
        return k <= limit;
      });
      EXPECT_EQ(found, limit);
      EXPECT_LE(calls, std::ceil(std::log2(most + 1.0)));
    }
  }
}

TEST(BinarySearch, gives_up_when_there_is_no_answer) {
  uint32_t calls = 0;
  const auto found = binary_search(100, [&](uint32_t) -> std::optional<bool> {
    if (++calls == 3) return std::nullopt;
    return true;
  });
  EXPECT_FALSE(found.has_value());
  EXPECT_EQ(calls, 3u);
}

// One worker that serves requests of a fixed length in order: M/D/1.
Experiment one_queue(const std::string& slo) {
  Experiment options;
  options.candidates = {{"cfcfs", {}}};
  options.setup.workers = 1;
  options.setup.requests = 50'000;
  options.setup.workload.mixes = {parse_mix("fixed-1").value()};
  options.seeds = 3;
  options.threads = 2;
  EXPECT_TRUE(parse_slo(slo, options.slo).ok());
  return options;
}

const std::atomic<bool> kRun{false};
constexpr auto kSilent = [](double) {};

TEST(FindMax, finds_the_load_that_queueing_theory_gives) {
  // The mean slowdown of M/D/1 is 1 + load / (2 (1 - load)) (Pollaczek and Khinchine): 2 at 2/3.
  const auto results = find_max(one_queue("mean_slowdown=2"), kRun, kSilent).value();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_NEAR(results[0].load.mean, 2.0 / 3, 0.03);
  EXPECT_EQ(results[0].loads.size(), 3u);
  EXPECT_EQ(results[0].at_most, 0u);
  EXPECT_LT(results[0].load.half_width, 0.05);
}

TEST(FindMax, a_slo_that_nothing_meets_has_load_0) {
  // The network alone takes longer than the limit.
  Experiment options = one_queue("p50_latency=1us");
  options.setup.costs.network_rtt = Nanos::micros(10);
  const auto results = find_max(options, kRun, kSilent).value();
  EXPECT_EQ(results[0].load.mean, 0);
  EXPECT_EQ(results[0].at_most, 0u);
}

TEST(FindMax, a_slo_that_is_met_at_the_greatest_load_is_said_to_be_a_bound) {
  Experiment options = one_queue("p999_latency=1s");
  options.max_load = 0.75;
  options.precision = 0.1;  // does not divide it
  const auto results = find_max(options, kRun, kSilent).value();
  EXPECT_EQ(results[0].load.mean, 0.75);
  EXPECT_EQ(results[0].at_most, 3u);
}

TEST(FindMax, does_not_depend_on_threads_and_does_on_seeds) {
  Experiment options = one_queue("p99_slowdown=5");
  options.precision = 0.001;
  const auto loads = [&options] {
    return find_max(options, kRun, kSilent).value().front().loads;
  };
  const std::vector<double> two = loads();
  options.threads = 1;
  EXPECT_EQ(loads(), two);
  options.setup.seed = 77;
  EXPECT_NE(loads(), two);
}

TEST(FindMax, leaves_out_what_was_not_finished) {
  const std::atomic<bool> stop{true};
  const auto results = find_max(one_queue("p99_slowdown=5"), stop, kSilent).value();
  EXPECT_TRUE(results.empty());
}

}  // namespace
}  // namespace rubato::planning
