// SPDX-License-Identifier: Apache-2.0
#include "sim/steady_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "base/prng.h"
#include "sim/batch_recorder.h"
#include "sim/report.h"
#include "sim/start_up.h"
#include "sim/testing/runs.h"
#include "workload/sampling.h"

namespace rubato::sim {
namespace {

double uniform(Prng& prng) { return static_cast<double>(prng.below(1'000'000)) / 1e6 - 0.5; }

// Parts whose sums follow x' = r x + noise around `mean`.
std::vector<RatioPart> parts_of(Prng& prng, size_t count, double correlation, double mean) {
  std::vector<RatioPart> parts;
  double state = 0;
  for (size_t i = 0; i < count; ++i) {
    state = correlation * state + uniform(prng);
    parts.push_back({mean + state, 1});
  }
  return parts;
}

double coverage(double correlation) {
  constexpr int kRuns = 1000;
  Prng prng(7);
  int covered = 0;
  for (int i = 0; i < kRuns; ++i) {
    const RatioEstimate estimate = estimate_ratio(parts_of(prng, 32, correlation, 10));
    covered += std::abs(estimate.ratio - 10) <= estimate.half_width ? 1 : 0;
  }
  return static_cast<double>(covered) / kRuns;
}

TEST(RatioEstimate, holds_the_true_ratio_as_often_as_it_says) {
  EXPECT_NEAR(coverage(0), 0.95, 0.03);
  EXPECT_GE(coverage(0.3), 0.9);
  EXPECT_GE(coverage(0.6), 0.85);
}

TEST(RatioEstimate, knows_nothing_of_few_parts) {
  Prng prng(1);
  EXPECT_TRUE(std::isinf(estimate_ratio(parts_of(prng, 7, 0, 10)).half_width));
  EXPECT_TRUE(std::isinf(estimate_ratio({}).half_width));
}

TEST(RatioEstimate, joins_parts_that_depend_on_each_other) {
  Prng prng(1);
  EXPECT_EQ(estimate_ratio(parts_of(prng, 32, 0, 10)).batches, 32u);
  EXPECT_LE(estimate_ratio(parts_of(prng, 32, 0.9, 10)).batches, 16u);
}

// Batches of equally many requests with these mean latencies.
std::vector<Batch> batches_of(const std::vector<double>& means_us) {
  std::vector<Batch> batches;
  Progress progress;
  for (const double mean : means_us) {
    Batch batch;
    batch.begin = progress;
    progress.arrived += 1000;
    progress.at = progress.at + Nanos::millis(1);
    batch.end = progress;
    Histogram latency;
    for (int i = 0; i < 1000; ++i) latency.record(Nanos::from_micros(mean));
    batch.types.resize(1);
    batch.types[0].latency = PackedHistogram::take(latency);
    for (size_t c = 0; c < kCellsPerBatch; ++c) batch.cells.push_back({62, 62 * mean * 1e3});
    batches.push_back(std::move(batch));
  }
  return batches;
}

std::vector<double> noisy(size_t count, double mean, uint64_t seed) {
  Prng prng(seed);
  std::vector<double> means;
  for (size_t i = 0; i < count; ++i) means.push_back(mean + uniform(prng));
  return means;
}

TEST(StartUp, ends_where_latencies_have_settled) {
  std::vector<double> means = noisy(32, 20, 3);
  for (size_t i = 0; i < 6; ++i) means[i] = 5 + 2.0 * static_cast<double>(i);
  EXPECT_NEAR(static_cast<double>(start_up(batches_of(means), 0)), 6, 1);
}

TEST(StartUp, is_at_least_what_is_asked_for_and_at_most_half) {
  const std::vector<Batch> batches = batches_of(noisy(32, 20, 3));
  EXPECT_GE(start_up(batches, 4000), 4u);
  EXPECT_EQ(start_up(batches, 1'000'000), 16u);
}

std::string reasons_of(const Steadiness& found) {
  std::string text;
  for (const std::string& reason : found.reasons) text += reason + "\n";
  return text;
}

TEST(Steadiness, of_latencies_that_vary_by_chance) {
  const Steadiness found = judge_steadiness(batches_of(noisy(32, 20, 3)), {});
  EXPECT_EQ(found.verdict, RunState::kSteady) << reasons_of(found);
}

TEST(Steadiness, not_of_latencies_that_change_for_good) {
  std::vector<double> means = noisy(32, 20, 3);
  for (size_t i = 16; i < 32; ++i) means[i] += 10;
  const Steadiness found = judge_steadiness(batches_of(means), {});
  EXPECT_EQ(found.verdict, RunState::kNotSteady);
  EXPECT_EQ(reasons_of(found), "latencies change from the first half to the second\n");
}

TEST(Steadiness, not_of_a_policy_that_still_learns) {
  RunFacts facts;
  facts.learning = 20'000;
  const Steadiness found = judge_steadiness(batches_of(noisy(32, 20, 3)), facts);
  EXPECT_EQ(found.verdict, RunState::kNotSteady);
  EXPECT_NE(reasons_of(found).find("learns from the first 20000 of 32000"), std::string::npos);
}

// Sojourns of M/M/1, by Lindley's recursion for the waiting time, through the batches of a run that
// begins empty.
Outcome lindley(double rho, uint64_t seed, uint64_t requests, uint64_t cell_length = 1024) {
  constexpr double kService = 10'000;
  Prng prng(seed);
  BatchRecorder batches(1, cell_length);
  SimRequest request;
  request.service = Nanos(10'000);
  Progress progress;
  double wait = 0;
  for (progress.arrived = 1; progress.arrived <= requests; ++progress.arrived) {
    const double sojourn = wait + kService * sample_exponential(prng);
    wait = std::max(sojourn - kService / rho * sample_exponential(prng), 0.0);
    batches.now().done(request, Nanos(static_cast<int64_t>(sojourn)));
    if (progress.arrived >= batches.due()) batches.end_cell([&progress] { return progress; });
  }
  batches.end_arrivals(progress);
  Outcome outcome;
  outcome.batches = batches.take();
  outcome.first_batch = start_up(outcome.batches, requests / 10);
  sum_batches(outcome);
  return outcome;
}

Interval interval_of(std::span<const Batch> kept, const Histogram& all, double percent) {
  const auto found = std::find_if(kReportedPercentiles.begin(), kReportedPercentiles.end(),
                                  [&](const auto& one) { return one.percent == percent; });
  return percentile_intervals(kept, 0, Measure::kLatency, all).at(
      static_cast<size_t>(found - kReportedPercentiles.begin()));
}

// The sojourn is exponential, of mean 1 / (1 - rho) services (Kleinrock, volume 1, section 5.12).
TEST(Steadiness, intervals_hold_the_exact_figures_of_a_queue_as_often_as_they_say) {
  constexpr uint64_t kRuns = 40;
  for (const double rho : {0.5, 0.8, 0.9}) {
    const double mean = 10'000 / (1 - rho);
    const std::pair<double, double> figures[] = {
        {50, mean * std::log(2)}, {99, mean * std::log(100)}, {99.9, mean * std::log(1000)}};
    std::map<double, double> covered;
    for (uint64_t seed = 1; seed <= kRuns; ++seed) {
      const Outcome outcome = lindley(rho, seed * 1000, 1'000'000);
      const auto kept = std::span<const Batch>(outcome.batches).subspan(outcome.first_batch);
      const Histogram& all = outcome.types[0].latency;
      const auto count = [&](double percent, double figure, const Interval& found, double exact) {
        const double off = std::abs(figure - exact) - exact / 128;  // half a bucket
        covered[percent] += off <= found.half_width(figure) ? 1.0 / kRuns : 0;
      };
      count(0, all.mean_ns(), mean_interval(kept, 0, Measure::kLatency), mean);
      for (const auto& [percent, exact] : figures) {
        count(percent, static_cast<double>(all.percentile(percent).count()),
              interval_of(kept, all, percent), exact);
      }
    }
    for (const auto& [percent, share] : covered) {
      std::printf("load %.1f, %s %4.1f: %3.0f %% hold the exact figure\n", rho,
                  percent == 0 ? "mean" : "percentile", percent, 100 * share);
      EXPECT_GE(share, 0.9) << rho << " " << percent;
    }
  }
}

// In most short runs at high load few bursts make all of the tail, or none came.
TEST(Steadiness, a_short_run_does_not_know_a_tail_that_few_bursts_make) {
  constexpr double kMean = 10'000 / (1 - 0.95);
  constexpr uint64_t kRuns = 60;
  uint64_t wrong = 0;
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    const Outcome outcome = lindley(0.95, seed * 1000, 50'000, 16);
    const auto kept = std::span<const Batch>(outcome.batches).subspan(outcome.first_batch);
    const Histogram& all = outcome.types[0].latency;
    for (const double percent : {99.0, 99.9}) {
      const double exact = kMean * std::log(100 / (100 - percent));
      const auto figure = static_cast<double>(all.percentile(percent).count());
      const Interval found = interval_of(kept, all, percent);
      const bool holds = std::abs(figure - exact) - exact / 128 <= found.half_width(figure);
      wrong += holds ? 0 : 1;
      if (!holds) {
        std::printf("seed %d, percentile %.1f: %.0f ns, interval %.0f to %.0f\n",
                    static_cast<int>(seed), percent, figure, found.low, found.high);
      }
    }
  }
  EXPECT_EQ(wrong, 0u);
}

SimReport report_of(const char* policy, const sim::Setup& setup) {
  return make_report(setup, simulate(policy, {}, setup).value());
}

// One runs and four wait: M/M/1/5, whose share of arrivals that find it full is known.
TEST(Steadiness, the_interval_of_the_refused_holds_the_exact_share) {
  constexpr uint64_t kRuns = 20;
  const double exact = 0.1 * std::pow(0.9, 5) / (1 - std::pow(0.9, 6));
  uint64_t holds = 0;
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    sim::Setup setup = ideal(1, "exp-10", 0.9, 100'000);
    setup.costs.queue_capacity = 4;
    setup.seed = seed;
    const SimReport report = report_of("cfcfs", setup);
    const auto found = std::find_if(
        report.confidence.begin(), report.confidence.end(),
        [](const Confidence& c) { return c.path == "/simulation/refused_share"; });
    ASSERT_NE(found, report.confidence.end());
    EXPECT_LT(found->half_width, exact / 10);
    holds += std::abs(report.refused_share - exact) <= found->half_width ? 1u : 0u;
  }
  EXPECT_GE(holds, kRuns - 3);
}

// Beyond the capacity, by what is known and by what is seen: a load of 0.95 under prices.
TEST(Steadiness, an_overloaded_run_says_so_and_is_not_valid) {
  for (const double load : {1.02, 1.2, 3.0}) {
    const SimReport report = report_of("cfcfs", ideal(4, "exp-10", load, 100'000));
    EXPECT_EQ(report.steadiness.verdict, RunState::kOverloaded) << load;
    EXPECT_FALSE(report.run.valid);
    EXPECT_EQ(report.run.invalid_reason, kOverloaded);
  }
  sim::Setup priced = ideal(4, "exp-10", 0.95, 200'000);
  priced.costs.worker.receive = {Nanos(1000), Nanos(1000)};
  const SimReport report = report_of("cfcfs", priced);
  EXPECT_EQ(report.steadiness.verdict, RunState::kOverloaded);
  EXPECT_NE(reasons_of(report.steadiness).find("requests come faster than they are served"),
            std::string::npos);
}

TEST(Steadiness, a_stable_queue_is_never_taken_for_an_overloaded_one) {
  for (const double load : {0.5, 0.9, 0.97, 0.99}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      sim::Setup setup = ideal(1, "exp-10", load, 50'000);
      setup.seed = seed;
      EXPECT_NE(report_of("cfcfs", setup).steadiness.verdict, RunState::kOverloaded)
          << load << " " << seed;
    }
  }
}

// Requests that bring a third of the work are too rare to be seen in a short run.
TEST(Steadiness, work_that_did_not_come_is_missed) {
  const char* const mix = "short:10us:99.9995,rare:1s:0.0005";
  const SimReport report = report_of("cfcfs", ideal(16, mix, 0.8, 50'000));
  EXPECT_EQ(report.steadiness.verdict, RunState::kNotSteady);
  EXPECT_NE(reasons_of(report.steadiness).find("too few requests: those that came ask for"),
            std::string::npos)
      << reasons_of(report.steadiness);
}

TEST(Steadiness, a_window_that_is_longer_than_the_warm_up_is_told) {
  const SimReport report = report_of("darc", ideal(16, "zippydb", 0.7, 100'000));
  EXPECT_EQ(report.steadiness.verdict, RunState::kNotSteady);
  EXPECT_NE(reasons_of(report.steadiness).find("learns from the first 50000"), std::string::npos);
}

// In a run of fixed length batches are no more than a view of it.
TEST(Batches, together_have_every_measured_request_once) {
  for (const uint64_t requests : {1u, 7u, 1000u, 123'457u}) {
    const sim::Setup setup = ideal(3, "high-bimodal", 0.7, requests);
    const Outcome outcome = simulate("ps", {}, setup).value();
    uint64_t count = 0;
    for (const Batch& batch : outcome.batches) {
      for (const TypeBatch& type : batch.types) count += type.latency.count();
    }
    EXPECT_EQ(count, outcome.measured);
    EXPECT_LE(outcome.batches.size(), kMostBatches);
    if (requests > 1000) {
      EXPECT_GE(outcome.batches.size(), kMostBatches / 2);
    }
  }
}

}  // namespace
}  // namespace rubato::sim
