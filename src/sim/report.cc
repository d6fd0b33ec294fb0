// SPDX-License-Identifier: Apache-2.0
#include "sim/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/check.h"

namespace rubato::sim {
namespace {

// The 97.5 % quantile of Student's t distribution for 1, 2, ... degrees of freedom.
constexpr std::array kStudent = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060,
                                 2.2622,  2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199,
                                 2.1098,  2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639,
                                 2.0595,  2.0555, 2.0518, 2.0484, 2.0452, 2.0423};

double student(size_t degrees) {
  if (degrees <= kStudent.size()) return kStudent[degrees - 1];
  // The expansion of Cornish and Fisher around the normal quantile, exact to 1e-4 from here on.
  const double n = static_cast<double>(degrees);
  return 1.95996 + 2.3723 / n + 2.8225 / (n * n);
}

TypeReport type_report(const RequestType& type, const TypeOutcome& outcome) {
  TypeReport report;
  report.name = type.name;
  report.service_us = type.service.mean.micros();
  report.share = type.share;
  report.count = outcome.latency.count();
  report.refused = outcome.refused;
  report.lost = outcome.lost;
  report.latency = summarize_latency(outcome.latency);
  report.slowdown = summarize_slowdown(outcome.slowdown);
  report.histograms = {outcome.latency, outcome.slowdown};
  return report;
}

// Calls f(path, figure) for every figure of which several runs have a mean. Figures of nothing (no
// request of that type) are left out unless `all`.
template <class Report, class F>
void for_each_figure(Report& report, bool all, F&& f) {
  const auto latency = [&](const std::string& at, auto& l) {
    f(at + "/latency_us/mean", l.mean_us);
    f(at + "/latency_us/p50", l.p50_us);
    f(at + "/latency_us/p90", l.p90_us);
    f(at + "/latency_us/p99", l.p99_us);
    f(at + "/latency_us/p999", l.p999_us);
  };
  const auto slowdown = [&](const std::string& at, auto& s) {
    f(at + "/slowdown/mean", s.mean);
    f(at + "/slowdown/p50", s.p50);
    f(at + "/slowdown/p90", s.p90);
    f(at + "/slowdown/p99", s.p99);
    f(at + "/slowdown/p999", s.p999);
  };
  auto& run = report.run;
  f("/achieved_rps", run.achieved_rps);
  f("/utilization", *run.utilization);
  f("/simulation/useful_share", report.useful_share);
  f("/simulation/stalled_share", report.stalled_share);
  for (size_t w = 0; w < report.worker_utilization.size(); ++w) {
    f("/simulation/worker_utilization/" + std::to_string(w), report.worker_utilization[w]);
  }
  if (report.elastic) {
    auto& e = *report.elastic;
    f("/elastic/granted_share", e.granted_share);
    f("/elastic/cores", e.cores);
    f("/elastic/credits/total", e.credits);
    f("/elastic/credits/issued", e.credits_issued);
    f("/elastic/credits/outstanding", e.credits_outstanding);
    f("/elastic/credits/withheld", e.credits_withheld);
    f("/elastic/drained", e.drained);
  }
  latency("", run.latency);
  slowdown("", *run.slowdown);
  for (size_t i = 0; i < run.types.size(); ++i) {
    if (run.types[i].count == 0 && !all) continue;
    const std::string at = "/types/" + std::to_string(i);
    latency(at, run.types[i].latency);
    slowdown(at, *run.types[i].slowdown);
  }
}

void add_counters(SchedulerCounters& sum, const SchedulerCounters& other) {
  sum.preemptions += other.preemptions;
  sum.preemptions_avoided += other.preemptions_avoided;
  sum.steals += other.steals;
  sum.stolen += other.stolen;
  sum.wait_queue_max = std::max(sum.wait_queue_max, other.wait_queue_max);
  sum.migrations += other.migrations;
  sum.parked += other.parked;
  for (size_t i = 0; i < sum.more.size() && i < other.more.size(); ++i) {
    sum.more[i].second += other.more[i].second;
  }
}

void add_elastic(ElasticOutcome& sum, const ElasticOutcome& other) {
  sum.parks += other.parks;
  sum.wakes += other.wakes;
  sum.credit_messages += other.credit_messages;
  sum.demand_messages += other.demand_messages;
  sum.credits_least = std::min(sum.credits_least, other.credits_least);
  sum.credits_most = std::max(sum.credits_most, other.credits_most);
  sum.max_delay_us = std::max(sum.max_delay_us, other.max_delay_us);
  for (size_t i = 0; i < sum.unsent.size(); ++i) sum.unsent[i] += other.unsent[i];
}

void add_counts(SimReport& sum, const SimReport& other) {
  sum.requests += other.requests;
  sum.events += other.events;
  sum.simulated_s += other.simulated_s;
  if (sum.moves && other.moves) *sum.moves += *other.moves;
  if (sum.elastic && other.elastic) add_elastic(*sum.elastic, *other.elastic);
  RunReport& run = sum.run;
  run.requests += other.run.requests;
  run.refused += other.run.refused;
  run.lost += other.run.lost;
  run.wall_s += other.run.wall_s;
  run.latency.max_us = std::max(run.latency.max_us, other.run.latency.max_us);
  add_counters(*run.counters, *other.run.counters);
  if (run.valid && !other.run.valid) {
    run.valid = false;
    run.invalid_reason = other.run.invalid_reason;
  }
  for (size_t i = 0; i < run.types.size(); ++i) {
    TypeReport& type = run.types[i];
    const TypeReport& more = other.run.types[i];
    type.count += more.count;
    type.refused += more.refused;
    type.lost += more.lost;
    type.latency.max_us = std::max(type.latency.max_us, more.latency.max_us);
    type.histograms.latency.merge(more.histograms.latency);
    type.histograms.slowdown.merge(more.histograms.slowdown);
  }
}

}  // namespace

SimReport make_report(const Setup& setup, const Outcome& outcome) {
  SimReport report;
  report.requests = outcome.requests;
  report.events = outcome.events;
  report.simulated_s = outcome.simulated.seconds();
  report.useful_share = outcome.useful_share;
  report.stalled_share = outcome.stalled_share;
  report.worker_utilization = outcome.worker_busy;
  report.plan = outcome.plan;
  report.elastic = outcome.elastic;
  RunReport& run = report.run;
  run.kind = "sim";
  run.workers = setup.workers;
  run.seed = setup.seed;
  run.offered_rps = mean_rate(setup.workload);
  run.load = run.offered_rps * mean_service_ns(setup.workload) / 1e9 / setup.workers;
  run.requests = outcome.measured;
  Histogram latency, slowdown;
  const std::vector<RequestType>& types = types_of(setup.workload);
  RUBATO_CHECK(types.size() == outcome.types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    run.types.push_back(type_report(types[i], outcome.types[i]));
    run.refused += outcome.types[i].refused;
    run.lost += outcome.types[i].lost;
    latency.merge(outcome.types[i].latency);
    slowdown.merge(outcome.types[i].slowdown);
  }
  const double measured_s = outcome.measured_time.seconds();
  run.achieved_rps = measured_s > 0 ? static_cast<double>(outcome.done_in_time) / measured_s : 0;
  run.latency = summarize_latency(latency);
  run.slowdown = summarize_slowdown(slowdown);
  run.counters = outcome.counters;
  run.utilization = outcome.busy_share;
  run.wall_s = outcome.wall_s;
  run.cost_model = setup.costs.name;
  run.valid = !outcome.stopped && outcome.requests >= setup.requests;
  if (!run.valid) run.invalid_reason = kStoppedEarly;
  return report;
}

SimReport average(std::span<const SimReport> runs) {
  RUBATO_CHECK(!runs.empty());
  SimReport result = runs.front();
  if (runs.size() == 1) return result;
  std::map<std::string, std::vector<double>> samples;
  for (const SimReport& run : runs) {
    for_each_figure(run, false, [&](const std::string& path, double figure) {
      samples[path].push_back(figure);
    });
  }
  for (const SimReport& run : runs.subspan(1)) add_counts(result, run);
  for_each_figure(result, true, [&](const std::string& path, double& figure) {
    const auto found = samples.find(path);
    if (found == samples.end()) return;
    const Estimate mean = estimate(found->second);
    figure = mean.mean;
    result.confidence.push_back({path, mean.half_width});
  });
  result.seeds = static_cast<uint32_t>(runs.size());
  return result;
}

Estimate estimate(std::span<const double> samples) {
  RUBATO_CHECK(!samples.empty());
  const double n = static_cast<double>(samples.size());
  double sum = 0;
  for (const double sample : samples) sum += sample;
  const double mean = sum / n;
  if (samples.size() == 1) return {mean, 0};
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  return {mean, student(samples.size() - 1) * std::sqrt(squares / (n - 1) / n)};
}

}  // namespace rubato::sim
