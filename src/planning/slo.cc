// SPDX-License-Identifier: Apache-2.0
#include "planning/slo.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/name_list.h"
#include "base/option_text.h"
#include "planning/report_figures.h"
#include "workload/duration.h"

namespace rubato::planning {
namespace {

struct NamedStatistic {
  const char* name;
  Statistic statistic;
  double beyond;  // share of the requests that lie beyond it; 0 = not a percentile
};
constexpr NamedStatistic kStatistics[] = {{"mean", Statistic::kMean, 0},
                                          {"p50", Statistic::kP50, 0.5},
                                          {"p90", Statistic::kP90, 0.1},
                                          {"p99", Statistic::kP99, 0.01},
                                          {"p999", Statistic::kP999, 0.001}};
constexpr const char* kMetrics =
    "mean, p50, p90, p99 or p999 with _latency or _slowdown, of all requests or of one type, as "
    "get:p99_latency, and refused";
constexpr double kEnoughBeyond = 10;

const NamedStatistic& named(Statistic statistic) {
  return kStatistics[static_cast<size_t>(statistic)];
}

SloTarget refused_target(double limit) {
  return {"refused", "", Statistic::kMean, FigureKind::kShare, limit};
}

// "p99_latency", with or without "get:" before it, or "refused".
bool read_metric(const std::string& text, SloTarget& target) {
  if (text == "refused") {
    target = refused_target(target.limit);
    return true;
  }
  target.metric = text;
  const size_t colon = text.rfind(':');
  if (colon == 0) return false;
  if (colon != std::string::npos) target.type = text.substr(0, colon);
  const std::string name = colon == std::string::npos ? text : text.substr(colon + 1);
  for (const NamedStatistic& statistic : kStatistics) {
    target.statistic = statistic.statistic;
    target.kind = FigureKind::kLatency;
    if (name == std::string(statistic.name) + "_latency") return true;
    target.kind = FigureKind::kSlowdown;
    if (name == std::string(statistic.name) + "_slowdown") return true;
  }
  return false;
}

Status parse_limit(const std::string& text, SloTarget& target) {
  if (target.kind == FigureKind::kLatency) {
    const auto time = parse_duration(text);
    if (!time || *time <= Nanos()) {
      return Error{target.metric + " takes a time such as 300us or 5ms, not '" + text + "'"};
    }
    target.limit = time->micros();
    return Done{};
  }
  const auto ratio = parse_number(text);
  if (!ratio || *ratio < 1) {
    return Error{target.metric + " takes a number of 1 or more, as 50, not '" + text + "'"};
  }
  target.limit = *ratio;
  return Done{};
}

Status parse_refused(const std::string& text, Slo& slo) {
  const auto share = parse_number(text);
  if (!share || *share > 1) {
    return Error{"refused takes a share of the requests, of 0 to 1, not '" + text + "'"};
  }
  if (slo.refused_given) return Error{"names refused twice"};
  slo.refused = *share;
  slo.refused_given = true;
  return Done{};
}

Status parse_part(const std::string& part, Slo& slo) {
  const size_t equals = part.find('=');
  if (equals == std::string::npos) {
    return Error{"takes METRIC=LIMIT, as p99_latency=300us, not '" + part + "'"};
  }
  const std::string metric = part.substr(0, equals), limit = part.substr(equals + 1);
  if (metric == "refused") return parse_refused(limit, slo);
  SloTarget target;
  if (Status known = parse_metric(metric, target); !known) return known;
  for (const SloTarget& other : slo.targets) {
    if (other.metric == metric) return Error{"names " + metric + " twice"};
  }
  if (Status parsed = parse_limit(limit, target); !parsed) return parsed;
  slo.targets.push_back(std::move(target));
  return Done{};
}

// In the order of Statistic.
double latency_of(const LatencySummary& l, Statistic statistic) {
  const double figures[] = {l.mean_us, l.p50_us, l.p90_us, l.p99_us, l.p999_us};
  return figures[static_cast<size_t>(statistic)];
}

double slowdown_of(const SlowdownSummary& s, Statistic statistic) {
  const double figures[] = {s.mean, s.p50, s.p90, s.p99, s.p999};
  return figures[static_cast<size_t>(statistic)];
}

size_t type_index(const SloTarget& target, const RunReport& run) {
  size_t i = 0;
  while (i < run.types.size() && run.types[i].name != target.type) ++i;
  RUBATO_CHECK(i < run.types.size());
  return i;
}

}  // namespace

Status parse_metric(const std::string& text, SloTarget& target) {
  if (read_metric(text, target)) return Done{};
  return Error{"has no metric '" + text + "'; there is " + kMetrics};
}

namespace {

// A limit of 0 is for the requests that were seen: one that failed is enough.
SloFigure share_of_failures(const SloTarget& target, const sim::SimReport& report) {
  const RunReport& run = report.run;
  SloFigure figure{target.metric, target.kind, target.limit, 0, 0, run.requests, SloVerdict::kMet};
  if (run.requests > 0) {
    figure.figure = static_cast<double>(run.refused + run.lost) / static_cast<double>(run.requests);
  }
  if (target.limit > 0) {
    figure.half_width = half_width(report, "/simulation/lost_share") +
                        half_width(report, "/simulation/refused_share");
  }
  return figure;
}

}  // namespace

SloFigure figure_of(const SloTarget& target, const sim::SimReport& report) {
  if (target.kind == FigureKind::kShare) return share_of_failures(target, report);
  const bool latency = target.kind == FigureKind::kLatency;
  const RunReport& run = report.run;
  SloFigure figure{target.metric, target.kind, target.limit, 0, 0, measured(run), SloVerdict::kMet};
  const LatencySummary* latencies = &run.latency;
  const SlowdownSummary* slowdowns = &*run.slowdown;
  std::string path;
  if (!target.type.empty()) {
    const size_t i = type_index(target, run);
    path = fmt::format("/types/{}", i);
    latencies = &run.types[i].latency;
    slowdowns = &*run.types[i].slowdown;
    figure.count = run.types[i].count;
  }
  path += latency ? "/latency_us/" : "/slowdown/";
  path += named(target.statistic).name;
  figure.figure = latency ? latency_of(*latencies, target.statistic)
                          : slowdown_of(*slowdowns, target.statistic);
  figure.half_width = half_width(report, path);
  return figure;
}

namespace {

double upper(const SloFigure& figure) { return figure.figure + figure.half_width; }

SloVerdict verdict_of(const SloFigure& figure) {
  const double lower = figure.figure - figure.half_width;
  if (figure.count == 0 || lower > figure.limit) return SloVerdict::kMissed;
  return upper(figure) > figure.limit ? SloVerdict::kUnsure : SloVerdict::kMet;
}

// Of the figure and so many half-widths of its interval.
double ratio_of(const SloFigure& figure, double half_widths) {
  if (figure.count == 0) return std::numeric_limits<double>::infinity();
  const double distance = half_widths == 0 ? 0 : half_widths * figure.half_width;
  const double end = std::max(figure.figure + distance, 0.0);
  if (figure.kind != FigureKind::kShare) return end / figure.limit;
  if (end > figure.limit) return kRefusedRatio * (1 + end);
  return figure.limit > 0 ? end / figure.limit : 0;
}

}  // namespace

Status parse_slo(const std::string& text, Slo& slo) {
  const std::vector<std::string> parts = split(text, ',');
  if (parts.empty()) return Error{"takes METRIC=LIMIT, as p99_latency=300us, not ''"};
  for (const std::string& part : parts) {
    if (Status parsed = parse_part(part, slo); !parsed) return parsed;
  }
  return Done{};
}

Status check_types(const Slo& slo, const std::vector<std::string>& types) {
  for (const SloTarget& target : slo.targets) {
    if (target.type.empty()) continue;
    if (std::find(types.begin(), types.end(), target.type) != types.end()) continue;
    return Error{fmt::format("the workload has no type '{}'; it has {}", target.type,
                             fmt::join(types, ", "))};
  }
  return Done{};
}

std::string limit_text(FigureKind kind, double limit) {
  if (kind == FigureKind::kLatency) return format_time(Nanos::from_micros(limit));
  return fmt::format("{:g}", limit);
}

std::string slo_help() {
  return fmt::format(
      "Metrics of --slo, METRIC=LIMIT,...:\n  {}.\n"
      "  A latency takes a time, a slowdown a number, refused the share of requests that may be\n"
      "  lost or refused: p999_slowdown=50,get:p99_latency=300us,refused=0.001. It is 0 if not "
      "given.\n",
      kMetrics);
}

std::string slo_text(const Slo& slo) {
  std::string text;
  for (const SloTarget& target : slo.targets) {
    text += fmt::format("{} <= {}, ", target.metric, limit_text(target.kind, target.limit));
  }
  return text + fmt::format("refused <= {:g}", slo.refused);
}

const char* verdict_name(SloVerdict verdict) {
  constexpr const char* kNames[] = {"met", "unsure", "missed"};
  return kNames[static_cast<size_t>(verdict)];
}

SloResult judge(const Slo& slo, const sim::SimReport& report) {
  SloResult result;
  for (const SloTarget& target : slo.targets) {
    result.figures.push_back(figure_of(target, report));
  }
  result.figures.push_back(figure_of(refused_target(slo.refused), report));
  if (report.steadiness.verdict == sim::RunState::kOverloaded && slo.refused == 0) {
    result.verdict = SloVerdict::kMissed;
    result.worst_ratio = result.figure_ratio = result.least_ratio = kOverloadedRatio;
  }
  for (SloFigure& figure : result.figures) {
    figure.verdict = verdict_of(figure);
    result.verdict = std::max(result.verdict, figure.verdict);
    result.worst_ratio = std::max(result.worst_ratio, ratio_of(figure, 1));
    result.figure_ratio = std::max(result.figure_ratio, ratio_of(figure, 0));
    result.least_ratio = std::max(result.least_ratio, ratio_of(figure, -1));
  }
  return result;
}

uint64_t requests_for(const Slo& slo, const std::vector<RequestType>& types, double warmup) {
  double most = 0;
  for (const SloTarget& target : slo.targets) {
    double share = 1;
    for (const RequestType& type : types) {
      if (type.name == target.type) share = type.share;
    }
    const double beyond = named(target.statistic).beyond * share * (1 - warmup);
    if (beyond > 0) most = std::max(most, 2 * kEnoughBeyond / beyond);
  }
  return static_cast<uint64_t>(std::ceil(most));
}

std::string thin_evidence(const Slo& slo, const sim::SimReport& report, uint64_t requests) {
  double fewest = kEnoughBeyond;
  std::string metric;
  for (const SloTarget& target : slo.targets) {
    const double share = named(target.statistic).beyond;
    if (share == 0) continue;
    const uint64_t count = figure_of(target, report).count;
    const double beyond = share * static_cast<double>(count) / report.seeds;
    if (beyond >= fewest) continue;
    fewest = beyond;
    metric = target.metric;
  }
  if (metric.empty()) return "";
  std::string text = fmt::format("{} of a run has {:.1f} requests beyond it, which is few", metric,
                                 fewest);
  if (fewest == 0) return text;
  const double wanted = static_cast<double>(requests) * kEnoughBeyond / fewest;
  const double scale = std::pow(10, std::floor(std::log10(wanted)) - 1);
  return text + fmt::format("; --requests {:.0f} has ten", std::ceil(wanted / scale) * scale);
}

}  // namespace rubato::planning
