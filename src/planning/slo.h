// SPDX-License-Identifier: Apache-2.0
//
// Slo: limits that a run is held to, as `--slo METRIC=LIMIT,...` has them, and the verdict on a
// report. A plain value; pure functions, safe on every thread. Latencies are in microseconds.
//
// METRIC is mean, p50, p90, p99 or p999 with _latency (the limit is a time) or _slowdown (a
// number), of all requests or, as get:p99_latency, of one type. Requests that were lost or refused
// have no latency, so each is a miss unless `refused` allows a share of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/report.h"
#include "workload/mix.h"

namespace rubato::planning {

enum class Statistic : uint8_t { kMean, kP50, kP90, kP99, kP999 };
enum class FigureKind : uint8_t { kLatency, kSlowdown, kShare };  // kShare: of requests

struct SloTarget {
  std::string metric;  // as written, "get:p99_latency"
  std::string type;    // "" = all requests
  Statistic statistic = Statistic::kP99;
  FigureKind kind = FigureKind::kLatency;
  double limit = 0;  // the greatest figure that meets it
};

struct Slo {
  std::vector<SloTarget> targets;
  double refused = 0;  // greatest share of requests that may be lost or refused
  bool refused_given = false;

  bool given() const { return !targets.empty() || refused_given; }
};

// Fills all but the limit from "p99_latency", "get:p99_latency" or "refused". Fails with one line.
Status parse_metric(const std::string& text, SloTarget& target);

// Adds what `text` asks for. Fails with one line; `slo` may then hold a part of it.
Status parse_slo(const std::string& text, Slo& slo);

// Fails with one line if a target is of a type that is not among `types`.
Status check_types(const Slo& slo, const std::vector<std::string>& types);

std::string slo_help();  // what --slo takes, for --help

// As --slo takes it back: "300us", "50".
std::string limit_text(FigureKind kind, double limit);

// "p99_latency <= 300us, refused <= 0.01".
std::string slo_text(const Slo& slo);

// A figure has an interval (sim/report.h), which may lie on both sides of the limit.
enum class SloVerdict : uint8_t { kMet, kUnsure, kMissed };
const char* verdict_name(SloVerdict verdict);

struct SloFigure {
  std::string metric;
  FigureKind kind = FigureKind::kLatency;
  double limit = 0;
  double figure = 0, half_width = 0;
  uint64_t count = 0;  // requests it is of, all seeds together; of none, a limit is missed
  SloVerdict verdict = SloVerdict::kMet;
};

// Above every ratio of a latency to a sensible limit.
inline constexpr double kRefusedRatio = 1e9;
// The least ratio of a run whose queues grow: how late its requests are depends on its length.
inline constexpr double kOverloadedRatio = 100;

// The figure that a target is of. Requires a type that the report has.
SloFigure figure_of(const SloTarget& target, const sim::SimReport& report);

struct SloResult {
  SloVerdict verdict = SloVerdict::kMet;  // the worst of all
  std::vector<SloFigure> figures;   // in the order of the targets, `refused` last
  // The greatest upper end of an interval over its limit: at most 1 if the SLO is met. Refusals
  // beyond what is allowed make it kRefusedRatio or more, a type that was not seen infinite.
  double worst_ratio = 0;
  // The same of the figures themselves, and of the lower ends.
  double figure_ratio = 0, least_ratio = 0;
};

// An overloaded run misses every SLO that allows no refusals. Requires targets of types that the
// report has.
SloResult judge(const Slo& slo, const sim::SimReport& report);

// The length of a run, in requests, that leaves twenty beyond each percentile of the targets after
// a warm-up that cuts the given share. Requires the types that the targets name.
uint64_t requests_for(const Slo& slo, const std::vector<RequestType>& types, double warmup);

// One line if a percentile of the targets rests on fewer than ten requests beyond it in one run,
// with the number of requests that would do; else "".
std::string thin_evidence(const Slo& slo, const sim::SimReport& report, uint64_t requests);

}  // namespace rubato::planning
