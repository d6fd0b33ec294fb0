// SPDX-License-Identifier: Apache-2.0
#include "fleet/replications.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "fleet/testing/worlds.h"

namespace rubato::fleet {
namespace {

double half_width(const Replications& runs, const std::string& path) {
  const auto found = std::find_if(runs.confidence.begin(), runs.confidence.end(),
                                  [&](const sim::Confidence& one) { return one.path == path; });
  EXPECT_NE(found, runs.confidence.end()) << path;
  return found == runs.confidence.end() ? -1 : found->half_width;
}

std::vector<WorldOutcome> runs_of(WorldSpec spec, uint64_t first, uint64_t count) {
  std::vector<WorldOutcome> runs;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    spec.seed = seed;
    runs.push_back(outcome_of(spec));
  }
  return runs;
}

// Four servers M/M/1 at half load.
WorldSpec simple() { return world(servers(4), open_clients("all:exp(1ms):1", 2000), 2); }

TEST(Replications, counts_are_sums_and_shares_are_means) {
  const std::vector<WorldOutcome> runs = runs_of(simple(), 1, 3);
  uint64_t served = 0;
  double busy = 0;
  for (const WorldOutcome& run : runs) {
    served += run.clients[0].served;
    busy += run.servers[2].busy_share;
  }
  const Replications all = replications(runs);
  EXPECT_EQ(all.seeds, 3u);
  EXPECT_EQ(all.pooled.clients[0].served, served);
  EXPECT_EQ(all.pooled.clients[0].latency.count(), served);
  EXPECT_DOUBLE_EQ(all.pooled.servers[2].busy_share, busy / 3);
  EXPECT_EQ(all.pooled.measured, runs[0].measured * 3);
}

TEST(Replications, one_run_has_no_intervals) {
  EXPECT_TRUE(replications(runs_of(simple(), 1, 1)).confidence.empty());
}

TEST(Replications, half_widths_are_those_of_students_t) {
  const std::vector<WorldOutcome> runs = runs_of(simple(), 1, 4);
  std::vector<double> means;
  for (const WorldOutcome& run : runs) means.push_back(run.clients[0].latency.mean_ns() / 1e3);
  EXPECT_DOUBLE_EQ(half_width(replications(runs), "/clients/0/latency_us/mean"),
                   sim::estimate(means).half_width);
}

// The mean of M/M/1 at half load is 2 ms. Of twenty intervals at 95 % three may miss it with a
// probability of over 5 %, five with one of 0.3 %.
TEST(Replications, intervals_hold_what_theory_says) {
  int missed = 0;
  for (uint64_t i = 0; i < 20; ++i) {
    const Replications all = replications(runs_of(simple(), 100 + 5 * i, 5));
    const double mean_us = all.pooled.clients[0].latency.mean_ns() / 1e3;
    missed += std::abs(mean_us - 2000) > half_width(all, "/clients/0/latency_us/mean") ? 1 : 0;
  }
  EXPECT_LE(missed, 4);
}

}  // namespace
}  // namespace rubato::fleet
