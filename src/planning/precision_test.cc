// SPDX-License-Identifier: Apache-2.0
//
// Runs that end when they know enough, against queueing theory: the exact figure must lie in about
// as many intervals as these promise. Seeds are fixed: a test that passes, passes always.
// RUBATO_SEEDS sets their number; sim/steady_state_test.cc has more of them on a shorter way.
#include "planning/precision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>

#include "planning/report_figures.h"
#include "sim/testing/runs.h"

namespace rubato::planning {
namespace {

uint32_t seeds_or(uint32_t seeds) {
  const char* const given = std::getenv("RUBATO_SEEDS");
  return given != nullptr ? static_cast<uint32_t>(std::atoi(given)) : seeds;
}

Precision precision_of(const std::string& text) {
  Precision precision;
  EXPECT_TRUE(parse_precision(text, precision).ok());
  return precision;
}

std::string error_of(const std::string& text) {
  Precision precision;
  const Status parsed = parse_precision(text, precision);
  return parsed.ok() ? "" : parsed.error();
}

sim::SimReport run_until(const Precision& precision, const std::string& policy,
                         const sim::Setup& setup) {
  Sufficiency sufficiency(precision);
  sim::Watch watch;
  watch.enough = [&](const sim::Outcome& so_far) {
    return sufficiency.reached_by(sim::make_report(setup, so_far));
  };
  return sim::make_report(setup, sim::simulate(policy, {}, setup, watch).value());
}

// How often the exact value lies in the interval, to the resolution of a histogram.
struct Coverage {
  uint32_t runs = 0, covered = 0;
  double sum = 0;

  void add(double figure, double half_width, double exact) {
    constexpr double kBucket = 0x1p-7;
    ++runs;
    covered += std::abs(figure - exact) <= half_width + kBucket * exact ? 1u : 0u;
    sum += figure;
  }
  double share() const { return static_cast<double>(covered) / runs; }
  double mean() const { return sum / runs; }
};

void expect_covers(const char* what, const Coverage& coverage, double exact) {
  std::printf("%-40s exact %9.4g, mean of runs %9.4g, %3.0f %% of %u intervals hold it\n", what,
              exact, coverage.mean(), 100 * coverage.share(), coverage.runs);
  // One of few may miss.
  EXPECT_GE(coverage.covered, std::floor(0.9 * coverage.runs)) << what;
}

TEST(Precision, takes_metrics_and_shares) {
  const Precision precision = precision_of("p999=5%,get:p99_slowdown=0.1");
  ASSERT_EQ(precision.targets.size(), 2u);
  EXPECT_EQ(precision.targets[0].metric, "p999_latency");
  EXPECT_DOUBLE_EQ(precision.targets[0].limit, 0.05);
  EXPECT_EQ(precision.targets[1].type, "get");
  EXPECT_DOUBLE_EQ(precision.targets[1].limit, 0.1);
}

TEST(Precision, refuses_with_one_line) {
  EXPECT_EQ(error_of("p99=5us"),
            "takes a share of the figure of 0.01% to 100%, as 5%, not '5us'");
  EXPECT_EQ(error_of("p99"), "takes METRIC=SHARE, as p99_latency=5%, not 'p99'");
  EXPECT_EQ(error_of("p99=0"), "takes a share of the figure of 0.01% to 100%, as 5%, not '0'");
  const std::string there_is =
      "; there is mean, p50, p90, p99 or p999 with _latency or _slowdown, of all requests or of "
      "one type, as get:p99_latency, and refused";
  EXPECT_EQ(error_of("p98=5%"), "has no metric 'p98'" + there_is);
  EXPECT_EQ(error_of("get:refused=5%"), "has no metric 'get:refused'" + there_is);
  EXPECT_EQ(error_of("p98_latency=5%"), "has no metric 'p98_latency'" + there_is);
  EXPECT_EQ(error_of("refused=5%,refused=1%"), "names refused twice");
  EXPECT_EQ(error_of("p99=5%,p99_latency=1%"), "names p99_latency twice");
}

TEST(Precision, is_of_the_slo_or_else_of_the_p99) {
  Slo slo;
  EXPECT_EQ(precision_for(slo).targets.front().metric, "p99_latency");
  ASSERT_TRUE(parse_slo("p999_slowdown=50", slo).ok());
  EXPECT_EQ(precision_for(slo).targets.front().metric, "p999_slowdown");
  EXPECT_DOUBLE_EQ(precision_for(slo).targets.front().limit, kDefaultPrecision);
}

// M/M/1: a sojourn is exponential (Kleinrock, volume 1, section 5.12).
TEST(Precision, intervals_of_a_markov_queue_hold_the_exact_figures) {
  constexpr double kRho = 0.8, kServiceUs = 10;
  const double mean = kServiceUs / (1 - kRho);
  const std::map<std::string, double> exact = {{"mean", mean},
                                               {"p50", mean * std::log(2)},
                                               {"p99", mean * std::log(100)},
                                               {"p999", mean * std::log(1000)}};
  std::map<std::string, Coverage> coverage;
  uint64_t requests = 0, steady = 0;
  const uint32_t seeds = seeds_or(8);
  for (uint32_t seed = 1; seed <= seeds; ++seed) {
    sim::Setup setup = sim::ideal(1, "exp-10", kRho, 3'000'000);
    setup.seed = seed * 1000;
    const sim::SimReport report = run_until(precision_of("p99=10%"), "cfcfs", setup);
    requests += report.requests;
    steady += report.steadiness.verdict == sim::RunState::kSteady ? 1 : 0;
    for (const auto& [name, figure] : exact) {
      SloTarget target;
      ASSERT_TRUE(parse_metric(name + "_latency", target).ok());
      const SloFigure found = figure_of(target, report);
      coverage[name].add(found.figure, found.half_width, figure);
    }
  }
  std::printf("%.0f requests per run\n", static_cast<double>(requests) / seeds);
  for (const auto& [name, figure] : exact) expect_covers(name.c_str(), coverage[name], figure);
  EXPECT_GE(static_cast<double>(steady), std::floor(0.9 * seeds));
}

// One runs and four wait: M/M/1/5, whose share of arrivals that find it full is known.
TEST(Precision, a_run_goes_on_until_the_refused_are_known) {
  const double exact = 0.1 * std::pow(0.9, 5) / (1 - std::pow(0.9, 6));
  Coverage refused;
  const uint32_t seeds = seeds_or(8);
  for (uint32_t seed = 1; seed <= seeds; ++seed) {
    sim::Setup setup = sim::ideal(1, "exp-10", 0.9, 3'000'000);
    setup.costs.queue_capacity = 4;
    setup.seed = seed * 1000;
    const Precision precision = precision_of("refused=5%");
    const sim::SimReport report = run_until(precision, "cfcfs", setup);
    const SloFigure found = figure_of(precision.targets.front(), report);
    EXPECT_LE(found.half_width, 0.05 * found.figure);
    EXPECT_LT(report.requests, 3'000'000u);
    refused.add(found.figure, found.half_width, exact);
  }
  expect_covers("refused", refused, exact);
}

// AQM refuses nobody for its patience of 100 ms: queues grow for twice the least run, which is none
// of a server that is overloaded for good.
TEST(Precision, a_run_goes_on_until_a_plan_to_refuse_works) {
  sim::Setup setup = sim::ideal(8, "exp-1", 1.1, 20'000'000);
  setup.refusal_rule.emplace();
  const sim::SimReport report = run_until(precision_of("p99=5%"), "cfcfs", setup);
  EXPECT_EQ(report.steadiness.verdict, sim::RunState::kSteady);
  EXPECT_NEAR(report.refused_share, 1 - 1 / 1.1, 0.01);
}

// M/G/1: Pollaczek and Khinchine. Of processor sharing in the limit of short quanta: the mean
// sojourn of a type is in proportion to its service (Kleinrock, volume 2, section 4.4).
TEST(Precision, intervals_of_a_queue_with_a_heavy_tail_hold_the_exact_mean) {
  constexpr double kRho = 0.7, kShort = 1, kLong = 100, kLongShare = 0.01;
  const double service = kShort * (1 - kLongShare) + kLong * kLongShare;
  const double squares = kShort * kShort * (1 - kLongShare) + kLong * kLong * kLongShare;
  const double wait = kRho / service * squares / 2 / (1 - kRho);
  Coverage all, of_long;
  const uint32_t seeds = seeds_or(8);
  for (uint32_t seed = 1; seed <= seeds; ++seed) {
    sim::Setup setup = sim::ideal(1, "short:1us:99,long:100us:1", kRho, 3'000'000);
    setup.seed = seed * 1000;
    const sim::SimReport report = run_until(precision_of("mean=10%"), "cfcfs", setup);
    all.add(report.run.latency.mean_us, half_width(report, "/latency_us/mean"), wait + service);
    of_long.add(report.run.types[1].latency.mean_us,
                half_width(report, "/types/1/latency_us/mean"), wait + kLong);
  }
  expect_covers("mean of all", all, wait + service);
  expect_covers("mean of the rare type", of_long, wait + kLong);
}

// A run that begins empty underestimates: what is left out must be enough.
TEST(Precision, start_up_leaves_no_bias) {
  constexpr double kRho = 0.9;
  Coverage coverage;
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    sim::Setup setup = sim::ideal(1, "exp-10", kRho, 3'000'000);
    setup.seed = seed * 1000;
    const sim::SimReport report = run_until(precision_of("mean=10%"), "cfcfs", setup);
    EXPECT_GE(report.start_up, report.requests / 13);
    coverage.add(report.run.latency.mean_us, 0, 0);
  }
  EXPECT_NEAR(coverage.mean(), 10 / (1 - kRho), 2.5);
}

TEST(Precision, a_finer_one_takes_a_longer_run) {
  const sim::Setup setup = sim::ideal(2, "exp-10", 0.8, 5'000'000);
  const sim::SimReport coarse = run_until(precision_of("p99=20%"), "cfcfs", setup);
  const sim::SimReport fine = run_until(precision_of("p99=4%"), "cfcfs", setup);
  EXPECT_GE(coarse.requests, Sufficiency::kLeastRequests);
  EXPECT_GT(fine.requests, 2 * coarse.requests);
  const std::vector<sim::ReachedPrecision> reached_by_fine =
      reached(precision_of("p99=4%"), fine);
  EXPECT_LE(reached_by_fine.front().reached, 0.04);
  EXPECT_GT(reached_by_fine.front().reached, 0);
}

TEST(Precision, a_run_that_may_not_go_on_is_complete_all_the_same) {
  const sim::Setup setup = sim::ideal(2, "exp-10", 0.8, 50'000);
  const sim::SimReport report = run_until(precision_of("p999=0.1%"), "cfcfs", setup);
  EXPECT_EQ(report.requests, 50'000u);
  EXPECT_TRUE(report.run.valid);
  EXPECT_GT(reached(precision_of("p999=0.1%"), report).front().reached, 0.001);
}

TEST(Precision, the_same_seed_ends_at_the_same_request) {
  const sim::Setup setup = sim::ideal(4, "high-bimodal", 0.7, 3'000'000);
  const sim::SimReport one = run_until(precision_of("p99=5%"), "ps", setup);
  const sim::SimReport two = run_until(precision_of("p99=5%"), "ps", setup);
  EXPECT_EQ(one.requests, two.requests);
  EXPECT_EQ(one.run.latency.mean_us, two.run.latency.mean_us);
}

}  // namespace
}  // namespace rubato::planning
