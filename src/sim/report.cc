// SPDX-License-Identifier: Apache-2.0
#include "sim/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/check.h"
#include "sim/student.h"

namespace rubato::sim {
namespace {

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
  f("/simulation/lost_share", report.lost_share);
  f("/simulation/refused_share", report.refused_share);
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
  if (report.limiter) {
    f("/limiter/mean_requests", report.limiter->mean_underway);
    f("/limiter/mean_levels", report.limiter->mean_levels);
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

// The batches of which intervals are made: of what is recorded those of the first pass.
std::span<const Batch> first_pass(const Setup& setup, const Outcome& outcome) {
  const auto kept = std::span<const Batch>(outcome.batches).subspan(outcome.first_batch);
  const uint64_t recorded = recorded_requests(setup.workload);
  if (recorded == 0) return kept;
  const auto within = [recorded](const Batch& b) { return b.end.arrived <= recorded; };
  return {kept.begin(), std::find_if_not(kept.begin(), kept.end(), within)};
}

// Of all types, then of each.
std::vector<TypeOutcome> sums_of(std::span<const Batch> batches, size_t types) {
  std::vector<TypeOutcome> sums(1 + types);
  for (const Batch& batch : batches) {
    for (size_t t = 0; t < types; ++t) {
      for (TypeOutcome* const sum : {&sums[0], &sums[1 + t]}) {
        batch.types[t].latency.add_to(sum->latency);
        batch.types[t].slowdown.add_to(sum->slowdown);
      }
    }
  }
  return sums;
}

// Half-widths of the figures of latency and slowdown, of all types or one. `pooled` is the sum of
// the batches, `whole` what the figures are of.
void add_intervals(SimReport& report, const std::string& at, std::span<const Batch> batches,
                   size_t type, const TypeOutcome& pooled, const TypeOutcome& whole) {
  constexpr size_t kLast = buckets::kCount - 1;
  const auto add = [&](Measure measure, const char* what, const Histogram& sum,
                       const Histogram& histogram, double unit) {
    if (histogram.empty()) return;
    const auto put = [&](const char* name, double figure, const Interval& interval) {
      report.confidence.push_back({at + what + name, interval.half_width(figure) / unit});
    };
    // Of values that saturate nobody knows the mean, nor a percentile among them.
    const bool saturated = histogram.overflow() > 0;
    constexpr double kUnknown = std::numeric_limits<double>::infinity();
    constexpr Interval kAny{-kUnknown, kUnknown, false};
    put("mean", histogram.mean_ns(),
        saturated ? kAny : mean_interval(batches, type, measure));
    const auto intervals = percentile_intervals(batches, type, measure, sum);
    for (size_t i = 0; i < intervals.size(); ++i) {
      const auto& [key, percent] = kReportedPercentiles[i];
      const auto figure = static_cast<double>(histogram.percentile(percent).count());
      const bool cut = saturated && figure >= static_cast<double>(buckets::low_of(kLast));
      put(key, figure, cut ? kAny : intervals[i]);
    }
  };
  add(Measure::kLatency, "/latency_us/", pooled.latency, whole.latency, 1e3);
  add(Measure::kSlowdown, "/slowdown/", pooled.slowdown, whole.slowdown, kSlowdownUnit);
}

// Those of rates and shares.
void add_interval_of(SimReport& report, const char* path, std::span<const Batch> batches,
                     RatioPart (*part)(const Progress& begin, const Progress& end), double scale) {
  std::vector<RatioPart> parts;
  for (const Batch& batch : batches) parts.push_back(part(batch.begin, batch.end));
  report.confidence.push_back({path, estimate_ratio(std::move(parts)).half_width * scale});
}

// Of requests, those that were lost or refused, as `outcomes` counts them.
void add_interval_of_failures(SimReport& report, const char* path, std::span<const Batch> batches,
                              uint64_t TypeBatch::* outcomes) {
  std::vector<RatioPart> parts;
  for (const Batch& batch : batches) {
    RatioPart part;
    for (const TypeBatch& type : batch.types) {
      part.sum += static_cast<double>(type.*outcomes);
      part.per += static_cast<double>(type.latency.count() + type.refused + type.lost);
    }
    parts.push_back(part);
  }
  report.confidence.push_back({path, estimate_ratio(std::move(parts)).half_width});
}

double nanos_between(const Progress& begin, const Progress& end) {
  return static_cast<double>((end.at - begin.at).count());
}

void add_all_intervals(SimReport& report, const Setup& setup, const Outcome& outcome,
                       const TypeOutcome& all) {
  const std::span<const Batch> batches = first_pass(setup, outcome);
  const size_t types = outcome.types.size();
  const bool once = outcome.first_batch + batches.size() == outcome.batches.size();
  const std::vector<TypeOutcome> sums =
      once ? std::vector<TypeOutcome>() : sums_of(batches, types);
  const double per_worker = 1.0 / static_cast<double>(report.run.workers);
  add_interval_of(report, "/achieved_rps", batches, [](const Progress& a, const Progress& b) {
    return RatioPart{static_cast<double>(b.done - a.done), nanos_between(a, b)}; }, 1e9);
  add_interval_of(report, "/utilization", batches, [](const Progress& a, const Progress& b) {
    const Nanos busy = b.useful + b.overhead - a.useful - a.overhead;
    return RatioPart{static_cast<double>(busy.count()), nanos_between(a, b)}; }, per_worker);
  add_interval_of(report, "/simulation/useful_share", batches,
                  [](const Progress& a, const Progress& b) {
    return RatioPart{static_cast<double>((b.useful - a.useful).count()), nanos_between(a, b)}; },
                  per_worker);
  add_interval_of_failures(report, "/simulation/lost_share", batches, &TypeBatch::lost);
  add_interval_of_failures(report, "/simulation/refused_share", batches, &TypeBatch::refused);
  add_intervals(report, "", batches, kAllTypes, once ? all : sums[0], all);
  for (size_t i = 0; i < types; ++i) {
    const TypeOutcome& whole = outcome.types[i];
    add_intervals(report, "/types/" + std::to_string(i), batches, i, once ? whole : sums[1 + i],
                  whole);
  }
}

Steadiness steadiness_of(const Setup& setup, const Outcome& outcome, double load) {
  RunFacts facts;
  facts.workers = setup.workers;
  facts.load = is_stationary(setup.workload) && !setup.elastic ? load : 0;
  facts.refuses_by_plan = setup.refusal_rule.has_value() || setup.limiter.has_value() ||
                          setup.elastic.has_value();
  facts.learning = outcome.learning;
  for (const double busy : outcome.worker_busy) {
    facts.busiest_worker = std::max(facts.busiest_worker, busy);
  }
  return judge_steadiness(std::span<const Batch>(outcome.batches).subspan(outcome.first_batch),
                          facts);
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
  sum.bounded += other.bounded;
  if (sum.moves && other.moves) *sum.moves += *other.moves;
  if (sum.over_time && other.over_time) sum.over_time->merge(*other.over_time);
  if (sum.elastic && other.elastic) add_elastic(*sum.elastic, *other.elastic);
  for (size_t i = 0; i < sum.refusals.size(); ++i) sum.refusals[i] += other.refusals[i];
  if (sum.limiter && other.limiter) sum.limiter->decisions += other.limiter->decisions;
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
  if (other.steadiness.verdict > sum.steadiness.verdict) sum.steadiness = other.steadiness;
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

// Of the interval of a mean over runs, whose error falls with the root of the requests: those of a
// trace that come again are not news.
double widening(const SimReport& sum) {
  const auto recorded = static_cast<double>(sum.recorded);
  return recorded > 0 ? std::sqrt(std::max(1.0, static_cast<double>(sum.requests) / recorded)) : 1;
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
  report.refusals = outcome.refusals;
  report.limiter = outcome.limiter;
  RunReport& run = report.run;
  run.kind = "sim";
  run.workers = setup.workers;
  run.seed = setup.seed;
  run.offered_rps = mean_rate(setup.workload);
  run.load = run.offered_rps * mean_service_ns(setup.workload) / 1e9 / setup.workers;
  run.requests = outcome.measured;
  TypeOutcome all;
  const std::vector<RequestType>& types = types_of(setup.workload);
  RUBATO_CHECK(types.size() == outcome.types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    run.types.push_back(type_report(types[i], outcome.types[i]));
    run.refused += outcome.types[i].refused;
    run.lost += outcome.types[i].lost;
    all.latency.merge(outcome.types[i].latency);
    all.slowdown.merge(outcome.types[i].slowdown);
  }
  if (run.requests > 0) {
    const auto measured = static_cast<double>(run.requests);
    report.lost_share = static_cast<double>(run.lost) / measured;
    report.refused_share = static_cast<double>(run.refused) / measured;
  }
  const double measured_s = outcome.measured_time.seconds();
  run.achieved_rps = measured_s > 0 ? static_cast<double>(outcome.done_in_time) / measured_s : 0;
  run.latency = summarize_latency(all.latency);
  run.slowdown = summarize_slowdown(all.slowdown);
  run.counters = outcome.counters;
  run.utilization = outcome.busy_share;
  run.wall_s = outcome.wall_s;
  run.cost_model = setup.costs.name;
  report.learning = outcome.learning;
  report.recorded = recorded_requests(setup.workload);
  if (!outcome.batches.empty()) {
    const uint64_t first = outcome.batches[outcome.first_batch].begin.arrived;
    report.start_up = first > 0 ? first - 1 : 0;  // a batch begins with the request itself
    add_all_intervals(report, setup, outcome, all);
    report.steadiness = steadiness_of(setup, outcome, *run.load);
  }
  if (outcome.stopped || !outcome.complete) {
    run.valid = false;
    run.invalid_reason = kStoppedEarly;
  } else if (report.steadiness.verdict == RunState::kOverloaded) {
    run.valid = false;
    run.invalid_reason = kOverloaded;
  }
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
  result.confidence.clear();
  for (const SimReport& run : runs.subspan(1)) add_counts(result, run);
  const double wider = widening(result);
  for_each_figure(result, true, [&](const std::string& path, double& figure) {
    const auto found = samples.find(path);
    if (found == samples.end()) return;
    const Estimate mean = estimate(found->second);
    figure = mean.mean;
    result.confidence.push_back({path, mean.half_width * wider});
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
