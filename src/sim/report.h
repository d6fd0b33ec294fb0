// SPDX-License-Identifier: Apache-2.0
//
// The report of a simulated run, as the RunReport that live runs make too, and the average of
// several seeds with its confidence. Pure functions over plain values; safe on every thread.
//
// `requests` counts, as in live runs, those that arrived after the warm-up: types' counts, refused,
// lost, and shed by clients with sessions add up to it. The totals of the simulation are in
// SimReport.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metrics/run_report.h"
#include "sim/outcomes.h"
#include "sim/setup.h"
#include "sim/simulation.h"
#include "sim/steady_state.h"
#include "sim/timeline.h"

namespace rubato::sim {

// Half of a 95 % confidence interval. `path` is where the report's JSON has the figure:
// "/latency_us/p99", "/types/0/slowdown/p999".
struct Confidence {
  std::string path;
  double half_width = 0;  // infinite if the run says nothing of it
};

// How well a figure was to be known, and is: half of its interval over the figure.
struct ReachedPrecision {
  std::string metric;
  double wanted = 0, reached = 0;
};

struct SimReport {
  RunReport run;
  uint64_t requests = 0;    // simulated in all, warm-up included
  uint64_t events = 0;
  double simulated_s = 0;   // virtual time
  double stalled_share = 0;  // of the workers' time: the machine kept their cores
  double useful_share = 0;  // of the workers' time: in requests; utilization has the overheads too
  double lost_share = 0, refused_share = 0;  // of the measured requests
  std::vector<double> worker_utilization;  // of each worker
  std::vector<std::string> plan;  // the policy's words on its last plan; of several: the first's
  uint32_t seeds = 1;       // runs that this is the average of
  // Of one seed from its batches, of several from their differences.
  std::vector<Confidence> confidence;
  Steadiness steadiness;   // the worst of all seeds
  uint64_t start_up = 0;   // requests at the begin that the figures leave out; the first seed's
  uint64_t learning = 0;   // that the policy learns from before it has a plan
  uint64_t recorded = 0;   // as recorded_requests(workload) has it
  std::vector<ReachedPrecision> until;  // if the run went on until it knew that
  uint32_t bounded = 0;        // seeds that ended for the most requests that they may have
  uint64_t most_requests = 0;  // which are so many for each
  std::optional<MoveOutcomes> moves;   // if they were asked for
  std::optional<Timeline> over_time;   // likewise; of several seeds, of all requests together
  std::optional<ElasticOutcome> elastic;  // if the setup has that
  std::array<uint64_t, kRefusals> refusals{};       // by Refusal
  std::optional<overload::LimiterReport> limiter;  // if the setup has that
};

inline constexpr const char* kStoppedEarly = "stopped early";
inline constexpr const char* kOverloaded = "overloaded";

// Leaves policy, workload, arrivals, machine, version and settings to the caller. A run that ended
// early is not valid, nor is one in which requests come faster than they are served. Without
// batches there are no intervals, and the run counts as steady. A recording that starts over says
// nothing new: intervals are those of its first pass, and infinite where few batches are within it.
SimReport make_report(const Setup& setup, const Outcome& outcome);

// One report for runs that differ in their seed only. Shares, rates, latencies and slowdowns are
// means over the runs (of a type: over the runs that had such a request); counts, times and
// counters are sums; maxima are maxima. Valid if every run is. Requires at least one run. Runs of
// blocks of a trace say what other recordings would, and more of them only say that better: their
// intervals are as wide as if the requests of the trace had been there once.
SimReport average(std::span<const SimReport> runs);

// Mean and half of the 95 % confidence interval (Student's t) of independent samples; an interval
// of one sample is 0 wide. Requires at least one.
struct Estimate {
  double mean = 0, half_width = 0;
};
Estimate estimate(std::span<const double> samples);

}  // namespace rubato::sim
