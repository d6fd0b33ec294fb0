// SPDX-License-Identifier: Apache-2.0
//
// How far the figures of one run can be trusted: the interval of a figure from the differences
// between batches, and whether the run was steady at all. Pure functions over plain values; safe on
// every thread.
//
// A percentile is that of all kept requests. Its interval comes from the share of requests that do
// not exceed it in each batch: these shares are a ratio estimate, whose interval is read back
// through the distribution (Heidelberger and Lewis, "Quantile estimation in dependent sequences",
// Operations Research 32, 1984). Batches that are still correlated are joined in pairs, and if few
// are left the variance is scaled by (1+r)/(1-r) for their correlation r, as ASAP3 does (Steiger et
// al., ACM TOMACS 15, 2005).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "metrics/histogram.h"
#include "sim/batch.h"
#include "workload/source.h"

namespace rubato::sim {

// Of the requests of one batch: how much of something, per how much.
struct RatioPart {
  double sum = 0, per = 0;
};

struct RatioEstimate {
  double ratio = 0;
  double half_width = 0;    // of 95 % confidence; infinite if nothing is known
  size_t batches = 0;       // that it rests on, after joining
  double correlation = 0;   // of neighbours among them
  bool correlated = false;  // significantly, and there are too few to join more
};
RatioEstimate estimate_ratio(std::vector<RatioPart> parts);

// 95 % confidence; either end is infinite if the run does not bound it.
struct Interval {
  double low = 0, high = 0;
  bool correlated = false;
  // The greater distance of an end from the figure: so that figure +- it covers as much.
  double half_width(double figure) const;
};

// `type` indexes Batch::types; of all types if it is kAllTypes. Latencies in ns, slowdowns in
// thousandths. `pooled` is the sum of the batches.
inline constexpr size_t kAllTypes = SIZE_MAX;
enum class Measure : uint8_t { kLatency, kSlowdown };
Interval mean_interval(std::span<const Batch> batches, size_t type, Measure measure);

// What reports have, rising, by its key in JSON.
struct ReportedPercentile {
  const char* key;
  double percent;
};
inline constexpr std::array<ReportedPercentile, 4> kReportedPercentiles{
    {{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p999", 99.9}}};
// Of these; none ends before that of a lower one.
std::array<Interval, kReportedPercentiles.size()> percentile_intervals(
    std::span<const Batch> batches, size_t type, Measure measure, const Histogram& pooled);

enum class RunState : uint8_t { kSteady, kNotSteady, kOverloaded };
const char* verdict_name(RunState verdict);

struct Steadiness {
  RunState verdict = RunState::kSteady;
  std::vector<std::string> reasons;  // of a verdict that is not kSteady
  bool is_final = false;  // overloaded, and neither refusals by plan nor more cores can end it
};

// Does the rate of its requests stay the same?
bool is_stationary(const WorkloadSpec& workload);

// What is known of the run besides its batches.
struct RunFacts {
  double workers = 1;            // times their speeds
  double load = 0;               // offered share of the capacity; 0 = it changes over the run
  bool refuses_by_plan = false;  // admission control, credits: refusals are no sign of overload
  double busiest_worker = 0;     // share of its time that it was busy
  uint64_t learning = 0;         // requests that the policy learns from before it has a plan
};
// Of the batches that are kept.
Steadiness judge_steadiness(std::span<const Batch> batches, const RunFacts& facts);

}  // namespace rubato::sim
