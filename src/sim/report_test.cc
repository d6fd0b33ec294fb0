// SPDX-License-Identifier: Apache-2.0
#include "sim/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "sim/testing/runs.h"
#include "workload/sampling.h"

namespace rubato::sim {
namespace {

Setup two_types() {
  Setup setup;
  setup.classify = Classify::kFeedback;
  setup.workers = 4;
  setup.requests = 1000;
  setup.seed = 3;
  setup.workload.mixes.push_back(parse_mix("short:1us:90,long:11us:10").value());
  setup.workload.rate = 1e6;
  return setup;
}

// 90 short ones of `short_us` each and 10 long ones of 22 us.
Outcome outcome_with(int64_t short_us) {
  Outcome outcome;
  outcome.types.resize(2);
  const Nanos latencies[] = {Nanos::micros(short_us), Nanos::micros(22)};
  const Nanos services[] = {Nanos::micros(1), Nanos::micros(11)};
  const uint64_t counts[] = {90, 10};
  for (size_t i = 0; i < 2; ++i) {
    for (uint64_t n = 0; n < counts[i]; ++n) {
      outcome.types[i].latency.record(latencies[i]);
      record_slowdown(outcome.types[i].slowdown, latencies[i], services[i]);
    }
  }
  outcome.types[0].refused = 5;
  outcome.types[1].lost = 7;
  outcome.counters.preemptions = 9;
  outcome.counters.wait_queue_max = static_cast<uint64_t>(short_us);
  outcome.requests = 1000;
  outcome.complete = true;
  outcome.measured = 112;
  outcome.done_in_time = 98;
  outcome.measured_time = Nanos::millis(1);
  outcome.simulated = Nanos::millis(2);
  outcome.busy_share = 0.6;
  outcome.useful_share = 0.5;
  outcome.wall_s = 0.25;
  return outcome;
}

double half_width(const SimReport& report, const std::string& path) {
  const auto found = std::find_if(report.confidence.begin(), report.confidence.end(),
                                  [&](const Confidence& c) { return c.path == path; });
  return found == report.confidence.end() ? -1 : found->half_width;
}

TEST(SimReport, says_what_the_run_did) {
  const SimReport report = make_report(two_types(), outcome_with(2));
  const RunReport& run = report.run;
  EXPECT_EQ(run.kind, "sim");
  EXPECT_EQ(run.workers, 4u);
  EXPECT_EQ(run.seed, 3u);
  EXPECT_DOUBLE_EQ(run.offered_rps, 1e6);
  EXPECT_DOUBLE_EQ(run.achieved_rps, 98 / 1e-3);  // what was still there at the end is not in
  EXPECT_NEAR(*run.load, 0.5, 1e-9);  // a mean of 2 us, one request per us, four workers
  EXPECT_EQ(run.requests, 112u);
  EXPECT_EQ(run.refused, 5u);
  EXPECT_EQ(run.lost, 7u);
  EXPECT_DOUBLE_EQ(*run.utilization, 0.6);
  EXPECT_EQ(run.cost_model, "ideal");
  EXPECT_TRUE(run.valid);
  EXPECT_NEAR(run.latency.mean_us, 4.0, 0.01);
  EXPECT_NEAR(run.slowdown->mean, 2.0, 0.01);
  ASSERT_EQ(run.types.size(), 2u);
  EXPECT_EQ(run.types[1].name, "long");
  EXPECT_DOUBLE_EQ(*run.types[1].service_us, 11);
  EXPECT_DOUBLE_EQ(run.types[1].share, 0.1);
  EXPECT_EQ(run.types[1].count, 10u);
  EXPECT_NEAR(run.types[1].slowdown->p50, 2.0, 0.02);
  EXPECT_EQ(run.counters->preemptions, 9u);
}

TEST(SimReport, a_run_that_ended_early_is_not_valid) {
  Outcome outcome = outcome_with(2);
  outcome.complete = false;
  const SimReport report = make_report(two_types(), outcome);
  EXPECT_FALSE(report.run.valid);
  EXPECT_EQ(report.run.invalid_reason, kStoppedEarly);
}

TEST(SimReport, an_empty_run_has_no_rate) {
  Outcome outcome;
  outcome.types.resize(2);
  const SimReport report = make_report(two_types(), outcome);
  EXPECT_EQ(report.run.achieved_rps, 0);
  EXPECT_FALSE(report.run.valid);
}

// A trace of Poisson arrivals, of which the run has so many.
Setup replay(uint64_t recorded, uint64_t requests) {
  std::vector<RecordedRequest> all;
  Prng prng(5);
  double at_ns = 0;
  for (uint64_t i = 0; i < recorded; ++i) {
    at_ns += 2000 * sample_exponential(prng);
    all.push_back({.at = Nanos(std::llround(at_ns)),
                   .service = Nanos(1 + std::llround(1000 * sample_exponential(prng)))});
  }
  Setup setup = ideal(1, "get:1us:1", 0.5, requests);
  setup.workload.trace = RequestTrace::of(all, {"get"}).value();
  setup.workload.rate = setup.workload.trace->rate_rps();
  return setup;
}

// The same arrivals, with services that are drawn.
Setup arrivals_of(const Setup& replayed) {
  Setup setup = ideal(1, "exp-1", 0.5, replayed.requests);
  setup.workload.arrivals.shape = ArrivalShape::kTrace;
  TraceCursor cursor(replayed.workload.trace);
  while (const auto request = cursor.next()) setup.workload.times.push_back(request->at);
  return setup;
}

double replayed_half_width(uint64_t requests, const std::string& path, bool arrivals = false) {
  const Setup requested = replay(20'000, requests);
  const Setup setup = arrivals ? arrivals_of(requested) : requested;
  return half_width(make_report(setup, simulate("cfcfs", {}, setup).value()), path);
}

TEST(SimReport, a_trace_that_starts_over_counts_once_in_intervals) {
  for (const bool arrivals : {false, true}) {
    for (const char* path : {"/latency_us/mean", "/latency_us/p99", "/slowdown/p50"}) {
      const double once = replayed_half_width(20'000, path, arrivals);
      EXPECT_GT(once, 0) << path;
      EXPECT_GT(replayed_half_width(40'000, path, arrivals), 0.8 * once) << path;
      // Batches are longer.
      EXPECT_TRUE(std::isinf(replayed_half_width(800'000, path, arrivals))) << path;
    }
  }
  EXPECT_TRUE(std::isinf(replayed_half_width(800'000, "/achieved_rps")));
}

TEST(SimReport, a_figure_of_latencies_that_saturate_has_no_interval) {
  const auto setup = ideal(1, "all:4000s:1", 0.95, 2000);
  const SimReport report = make_report(setup, simulate("cfcfs", {}, setup).value());
  ASSERT_GT(report.run.types[0].histograms.latency.overflow(), 0u);
  for (const char* path : {"/latency_us/mean", "/latency_us/p99"}) {
    EXPECT_TRUE(std::isinf(half_width(report, path))) << path;
  }
  EXPECT_FALSE(std::isinf(half_width(report, "/slowdown/mean")));
}

TEST(Simulate, services_that_no_histogram_holds_are_refused) {
  EXPECT_EQ(simulate("cfcfs", {}, ideal(1, "a:1us:1,b:10000s:1", 0.5, 200)).error(),
            "workload: 'b' takes 10000 s on average; latencies are measured up to 4398 s");
}

TEST(Average, runs_of_blocks_of_a_trace_say_no_more_than_the_trace) {
  std::vector<SimReport> runs;
  for (const int64_t us : {2, 4, 3, 3}) runs.push_back(make_report(two_types(), outcome_with(us)));
  const double independent = half_width(average(runs), "/latency_us/mean");
  for (SimReport& run : runs) run.recorded = run.requests;
  EXPECT_NEAR(half_width(average(runs), "/latency_us/mean"), 2 * independent, 1e-9);
  for (SimReport& run : runs) run.recorded = 4 * run.requests;
  EXPECT_NEAR(half_width(average(runs), "/latency_us/mean"), independent, 1e-9);
}

TEST(Average, seeds_that_ended_for_the_most_requests_are_counted) {
  SimReport runs[] = {make_report(two_types(), outcome_with(2)),
                      make_report(two_types(), outcome_with(4)),
                      make_report(two_types(), outcome_with(4))};
  runs[1].bounded = runs[2].bounded = 1;
  EXPECT_EQ(average(runs).bounded, 2u);
}

TEST(Average, figures_are_means_counts_are_sums_and_maxima_maxima) {
  const SimReport runs[] = {make_report(two_types(), outcome_with(2)),
                            make_report(two_types(), outcome_with(4))};
  const SimReport mean = average(runs);
  EXPECT_EQ(mean.seeds, 2u);
  EXPECT_NEAR(mean.run.types[0].latency.p50_us, 3, 0.05);
  EXPECT_NEAR(mean.run.types[0].slowdown->p99, 3, 0.05);
  EXPECT_DOUBLE_EQ(mean.run.types[0].latency.max_us, 4);
  EXPECT_EQ(mean.run.types[0].count, 180u);
  EXPECT_EQ(mean.run.requests, 224u);
  EXPECT_EQ(mean.run.lost, 14u);
  EXPECT_EQ(mean.run.counters->preemptions, 18u);
  EXPECT_EQ(mean.run.counters->wait_queue_max, 4u);
  EXPECT_DOUBLE_EQ(mean.run.wall_s, 0.5);
  EXPECT_DOUBLE_EQ(*mean.run.utilization, 0.6);
  EXPECT_EQ(half_width(mean, "/utilization"), 0);
  // Two samples one apart from their mean: t(1) * sqrt(2) / sqrt(2).
  EXPECT_NEAR(half_width(mean, "/types/0/latency_us/mean"), 12.7062, 0.001);
}

TEST(Average, a_type_that_one_run_never_saw_does_not_pull_the_mean_down) {
  Outcome without = outcome_with(2);
  without.types[1] = TypeOutcome{};
  const SimReport runs[] = {make_report(two_types(), outcome_with(2)),
                            make_report(two_types(), without)};
  const SimReport mean = average(runs);
  EXPECT_NEAR(mean.run.types[1].latency.mean_us, 22, 0.01);
  EXPECT_EQ(half_width(mean, "/types/1/latency_us/mean"), 0);
}

TEST(Average, of_one_run_is_that_run) {
  const SimReport runs[] = {make_report(two_types(), outcome_with(2))};
  const SimReport same = average(runs);
  EXPECT_EQ(same.seeds, 1u);
  EXPECT_TRUE(same.confidence.empty());
}

TEST(Average, one_run_stopped_early_makes_it_invalid) {
  Outcome stopped = outcome_with(2);
  stopped.complete = false;
  const SimReport runs[] = {make_report(two_types(), outcome_with(2)),
                            make_report(two_types(), stopped)};
  EXPECT_FALSE(average(runs).run.valid);
  EXPECT_EQ(average(runs).run.invalid_reason, kStoppedEarly);
}

TEST(Estimate, the_interval_is_students) {
  const std::vector<double> samples = {1, 2, 3, 4, 5};
  const Estimate five = estimate(samples);
  EXPECT_DOUBLE_EQ(five.mean, 3);
  EXPECT_NEAR(five.half_width, 2.7764 * std::sqrt(2.5 / 5), 1e-4);  // t(4) * s / sqrt(5)
  const double one[] = {7};
  EXPECT_DOUBLE_EQ(estimate(one).mean, 7);
  EXPECT_EQ(estimate(one).half_width, 0);
}

TEST(Estimate, many_samples_use_the_expansion_of_the_quantile) {
  // 61 samples, half of them at -1 and half at 1 around one 0: s^2 = 1.
  std::vector<double> samples = {0};
  for (int i = 0; i < 30; ++i) samples.insert(samples.end(), {-1, 1});
  EXPECT_NEAR(estimate(samples).half_width, 2.0003 / std::sqrt(61), 1e-4);  // t(60)
}

}  // namespace
}  // namespace rubato::sim
