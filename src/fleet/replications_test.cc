// SPDX-License-Identifier: Apache-2.0
#include "fleet/replications.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "fleet/figures.h"
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
  const Replications all = replications(simple(), runs);
  EXPECT_EQ(all.seeds, 3u);
  EXPECT_EQ(all.pooled.clients[0].served, served);
  EXPECT_EQ(all.pooled.clients[0].latency.count(), served);
  EXPECT_DOUBLE_EQ(all.pooled.servers[2].busy_share, busy / 3);
  EXPECT_EQ(all.pooled.measured, runs[0].measured + runs[1].measured + runs[2].measured);
}

// The mean of M/M/1 at half load is 2 ms, its p99 9.21 ms. Of twenty intervals at 95 % three may
// miss that with a probability of over 5 %, five with one of 0.3 %.
TEST(Replications, one_run_has_intervals_that_hold_what_theory_says) {
  int missed = 0, missed_p99 = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Replications all = replications(simple(), runs_of(simple(), seed, 1));
    const GroupOutcome& group = all.pooled.clients[0];
    const double mean_us = group.latency.mean_ns() / 1e3;
    missed += std::abs(mean_us - 2000) > half_width(all, "/clients/0/latency_us/mean") ? 1 : 0;
    const double p99_us = group.latency.percentile(99).micros();
    missed_p99 += std::abs(p99_us - 9210) > half_width(all, "/clients/0/latency_us/p99") ? 1 : 0;
    EXPECT_LT(half_width(all, "/clients/0/latency_us/mean"), 400);
  }
  EXPECT_LE(missed, 4);
  EXPECT_LE(missed_p99, 4);
}

// Half of the calls time out, two attempts each, and half of the workers' time is theirs.
TEST(Replications, every_ratio_of_one_run_has_an_interval) {
  WorldSpec spec = world(servers(4), open_clients("short:1ms:1,long:20ms:1", 20), 20);
  spec.clients[0].timeout = Nanos::millis(15);
  spec.clients[0].attempts = 2;
  const Replications all = replications(spec, runs_of(spec, 1, 1));
  const GroupOutcome& group = all.pooled.clients[0];
  const auto holds = [&](const char* name, double figure, double exact) {
    const double half = half_width(all, name);
    EXPECT_GT(half, 0) << name;
    EXPECT_LT(half, exact) << name;
    EXPECT_NEAR(figure, exact, 2 * half + 0.03 * exact) << name;
  };
  for (const CallRatio& ratio : kCallRatios) {
    const std::string path = "/clients/0/" + std::string(ratio.name);
    const double figure = figure_of(ratio, group, all.pooled.measured);
    if (ratio.sum == &CallCounts::failed) holds(path.c_str(), figure, 0.5);
    if (ratio.sum == &CallCounts::served && ratio.per != nullptr) holds(path.c_str(), figure, 0.5);
    if (ratio.sum == &CallCounts::attempts) holds(path.c_str(), figure, 1.5);
    if (ratio.sum == &CallCounts::retries) holds(path.c_str(), figure, 0.5);
    if (ratio.sum == &CallCounts::calls) holds(path.c_str(), figure, 20);
  }
  const double busy = server_groups(spec, all.pooled)[0].busy_share;
  holds("/server_groups/0/utilization", busy, 20 * (0.0005 + 2 * 0.01) / 4);
  EXPECT_GT(half_width(all, "/servers/3/utilization"), 0);
}

// Of 54 calls none is beyond the p99.9.
TEST(Replications, what_a_short_run_does_not_know_is_infinite) {
  const WorldSpec spec = world(servers(4), open_clients("all:exp(1ms):1", 30), 2);
  const Replications all = replications(spec, runs_of(spec, 1, 1));
  EXPECT_TRUE(std::isinf(half_width(all, "/clients/0/latency_us/p999")));
  EXPECT_FALSE(std::isinf(half_width(all, "/clients/0/latency_us/mean")));
}

TEST(Replications, the_verdict_is_the_worst_of_all_runs) {
  std::vector<WorldOutcome> runs = runs_of(simple(), 1, 3);
  runs[1].steadiness = {sim::RunState::kOverloaded, {"as told"}};
  const Replications all = replications(simple(), runs);
  EXPECT_EQ(all.pooled.steadiness.verdict, sim::RunState::kOverloaded);
  EXPECT_EQ(all.pooled.steadiness.reasons, std::vector<std::string>{"as told"});
  EXPECT_TRUE(std::isinf(half_width(all, "/clients/0/latency_us/p99")));
  EXPECT_FALSE(std::isinf(half_width(all, "/clients/0/achieved_rps")));
}

TEST(Replications, half_widths_are_those_of_students_t) {
  const std::vector<WorldOutcome> runs = runs_of(simple(), 1, 4);
  std::vector<double> means;
  for (const WorldOutcome& run : runs) means.push_back(run.clients[0].latency.mean_ns() / 1e3);
  EXPECT_DOUBLE_EQ(half_width(replications(simple(), runs), "/clients/0/latency_us/mean"),
                   sim::estimate(means).half_width);
}

// The mean of M/M/1 at half load is 2 ms. Of twenty intervals at 95 % three may miss it with a
// probability of over 5 %, five with one of 0.3 %.
TEST(Replications, intervals_hold_what_theory_says) {
  int missed = 0;
  for (uint64_t i = 0; i < 20; ++i) {
    const Replications all = replications(simple(), runs_of(simple(), 100 + 5 * i, 5));
    const double mean_us = all.pooled.clients[0].latency.mean_ns() / 1e3;
    missed += std::abs(mean_us - 2000) > half_width(all, "/clients/0/latency_us/mean") ? 1 : 0;
  }
  EXPECT_LE(missed, 4);
}

}  // namespace
}  // namespace rubato::fleet
