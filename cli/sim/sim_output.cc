// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/sim_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "cli/sim/elastic_flags.h"
#include "cli/sim/outcomes_flag.h"
#include "cli/sim/sim_text.h"
#include "cli/sim/timeline_flag.h"
#include "planning/report_figures.h"

namespace rubato::cli {
namespace {

using namespace planning;
using sim::SimReport;
using Json = nlohmann::ordered_json;

constexpr int kIndent = 1;
constexpr const char* kNothing = "nothing was simulated\n";

constexpr int kGap = 2;  // between columns

std::vector<std::string> type_names(const RunReport& run) {
  std::vector<std::string> names;
  for (const TypeReport& type : run.types) names.push_back(type.name);
  return names;
}

// A table's widths of latencies and slowdowns: those of the widest cell, and a gap.
struct Columns {
  int latency = 9, slowdown = 9;
};

void widen(Columns& columns, const SimReport& report, const std::string& at,
           const LatencySummary& l, const SlowdownSummary& s) {
  const auto widen_to = [](int& width, const std::string& cell) {
    width = std::max(width, static_cast<int>(cell.size()) + kGap);
  };
  const std::pair<const char*, double> latencies[] = {
      {"mean", l.mean_us}, {"p50", l.p50_us}, {"p90", l.p90_us},
      {"p99", l.p99_us},   {"p999", l.p999_us}};
  for (const auto& [key, us] : latencies) {
    widen_to(columns.latency, with_interval(report, at + "/latency_us/" + key, us, time_text));
  }
  const std::pair<const char*, double> slowdowns[] = {
      {"p50", s.p50}, {"p99", s.p99}, {"p999", s.p999}};
  for (const auto& [key, ratio] : slowdowns) {
    widen_to(columns.slowdown, with_interval(report, at + "/slowdown/" + key, ratio, ratio_text));
  }
}

Columns columns_of(std::span<const SimReport> reports) {
  Columns columns;
  for (const SimReport& report : reports) {
    const RunReport& run = report.run;
    widen(columns, report, "", run.latency, *run.slowdown);
    for (size_t i = 0; i < run.types.size(); ++i) {
      widen(columns, report, fmt::format("/types/{}", i), run.types[i].latency,
            *run.types[i].slowdown);
    }
  }
  return columns;
}

std::string header(Columns columns) {
  const auto [latency, slowdown] = columns;
  std::string text = fmt::format("{:<{}}{:>11}", "latency", kNameWidth, "measured");
  for (const char* name : {"mean", "p50", "p90", "p99", "p99.9"}) {
    text += fmt::format("{:>{}}", name, latency);
  }
  text += fmt::format("{:>9}  slowdown", "max");
  for (const char* name : {"p50", "p99", "p99.9"}) text += fmt::format("{:>{}}", name, slowdown);
  return text + "\n";
}

std::string row(const SimReport& report, const std::string& at, const std::string& name,
                uint64_t count, const LatencySummary& l, const SlowdownSummary& s,
                Columns columns) {
  const auto [latency, slowdown] = columns;
  std::string text = fmt::format("{:<{}}{:>11}", name.substr(0, kNameWidth - 1), kNameWidth, count);
  if (count == 0) return text + "   none was measured\n";
  const std::pair<const char*, double> latencies[] = {
      {"mean", l.mean_us}, {"p50", l.p50_us}, {"p90", l.p90_us},
      {"p99", l.p99_us},   {"p999", l.p999_us}};
  for (const auto& [key, us] : latencies) {
    const std::string path = at + "/latency_us/" + key;
    text += fmt::format("{:>{}}", with_interval(report, path, us, time_text), latency);
  }
  text += fmt::format("{:>9}          ", time_text(l.max_us));
  const std::pair<const char*, double> slowdowns[] = {
      {"p50", s.p50}, {"p99", s.p99}, {"p999", s.p999}};
  for (const auto& [key, ratio] : slowdowns) {
    const std::string path = at + "/slowdown/" + key;
    text += fmt::format("{:>{}}", with_interval(report, path, ratio, ratio_text), slowdown);
  }
  return text + "\n";
}

std::string percent_text(double share) { return fmt::format("{:.1f}", 100 * share); }
std::string small_percent_text(double share) { return fmt::format("{:.3f}", 100 * share); }

std::string achieved_text(const SimReport& report) {
  return with_interval(report, "/achieved_rps", report.run.achieved_rps, rate_text);
}
std::string busy_text(const SimReport& report) {
  return with_interval(report, "/utilization", *report.run.utilization, percent_text);
}
std::string lost_text(const SimReport& report) {
  if (report.run.lost == 0) return small_percent_text(0);
  return with_interval(report, "/simulation/lost_share", report.lost_share, small_percent_text);
}
std::string refused_text(const SimReport& report) {
  if (report.run.refused == 0) return small_percent_text(0);
  return with_interval(report, "/simulation/refused_share", report.refused_share,
                       small_percent_text);
}

std::string counters_line(const RunReport& run) {
  const SchedulerCounters& c = *run.counters;
  std::string text = fmt::format(
      "preemptions {} ({} avoided), steals {} of {} jobs, migrations {}, parked {}, longest wait "
      "queue {}",
      c.preemptions, c.preemptions_avoided, c.steals, c.stolen, c.migrations, c.parked,
      c.wait_queue_max);
  for (const auto& [name, value] : c.more) {
    if (value > 0) text += fmt::format(", {} {}", name, value);
  }
  return text + "\n";
}

bool is_precise(const SimReport& report) {
  return std::all_of(report.until.begin(), report.until.end(),
                     [](const sim::ReachedPrecision& p) { return p.reached <= p.wanted; });
}

// Why a run that ended for the most requests that it may have did not end before.
std::string bound_line(const SimReport& report) {
  if (report.bounded == 0) return "";
  const std::string ended = fmt::format("\n--max-requests {} ended ", report.most_requests);
  if (report.seeds > 1) {
    return ended + fmt::format("{} of {} seeds before each knew that by itself and was steady",
                               report.bounded, report.seeds);
  }
  if (!is_precise(report)) return ended + "the run before it knew that";
  const bool steady = report.steadiness.verdict == sim::RunState::kSteady;
  return ended + (steady ? "the run before it was sure of that" : "the run before it was steady");
}

uint64_t overflows(const SimReport& report) {
  uint64_t count = 0;
  for (const TypeReport& type : report.run.types) count += type.histograms.latency.overflow();
  return count;
}

std::string verdict_lines(const SimReport& report) {
  std::string text = verdict_text(report.steadiness);
  text += fmt::format("\nstart-up of {} requests left out", report.start_up);
  for (const sim::ReachedPrecision& p : report.until) {
    text += fmt::format("; {} is known to ", p.metric);
    text += std::isinf(p.reached) ? "no share" : fmt::format("{:.2g} %", 100 * p.reached);
    text += fmt::format(" ({:.2g} % were asked for)", 100 * p.wanted);
  }
  text += bound_line(report) + "\n" + overflow_line(overflows(report));
  return report.run.valid ? text : text + invalid_text(report.run.invalid_reason);
}

constexpr int kRowTextWidth = 13;  // a rate, or a type's name without its end
constexpr int kAchievedWidth = 25, kShareWidth = 16, kBusyWidth = 12;  // with intervals

std::string percentile_cells(const SimReport& report, const char* what, const double (&figures)[3],
                             std::string (*text)(double), int width) {
  constexpr const char* kKeys[] = {"p50", "p99", "p999"};
  std::string cells;
  for (size_t i = 0; i < 3; ++i) {
    const std::string path = fmt::format("/{}/{}", what, kKeys[i]);
    cells += fmt::format("{:>{}}", with_interval(report, path, figures[i], text), width);
  }
  return cells;
}

// p50, p99 and p99.9 of all, then the p99.9 of the type where it is worst.
std::string slowdown_cells(const SimReport& report, int width) {
  const SlowdownSummary& s = *report.run.slowdown;
  std::string text =
      percentile_cells(report, "slowdown", {s.p50, s.p99, s.p999}, ratio_text, width);
  const TypeReport* worst = worst_type(report.run);
  if (worst == nullptr) return text + "   none was measured";
  const std::string path =
      fmt::format("/types/{}/slowdown/p999", worst - report.run.types.data());
  return text + fmt::format("{:>{}}  {:<{}}",
                            with_interval(report, path, worst->slowdown->p999, ratio_text), width,
                            worst->name.substr(0, kNameWidth - 1), kNameWidth);
}

std::string end_of_row(const SimReport& report, const Slo& slo) {
  std::string text;
  if (report.steadiness.verdict == sim::RunState::kNotSteady) text += "  not steady";
  if (report.bounded > 0 && !is_precise(report)) text += "  not precise";
  if (overflows(report) > 0) text += "  latencies cut";
  if (slo.given()) text += fmt::format("  {}", verdict_name(judge(slo, report).verdict));
  if (!report.run.valid) text += "  INVALID: " + report.run.invalid_reason;
  return text + "\n";
}

std::string share_cells(const SimReport& report) {
  return fmt::format("{:>{}}{:>{}}{:>{}}", lost_text(report), kShareWidth, refused_text(report),
                     kShareWidth, busy_text(report), kBusyWidth);
}
std::string share_header() {
  return fmt::format("{:>{}}{:>{}}{:>{}}", "lost %", kShareWidth, "refused %", kShareWidth,
                     "busy %", kBusyWidth);
}

std::string sweep_row(const SimReport& report, const Slo& slo, int width) {
  const RunReport& run = report.run;
  std::string text =
      fmt::format("{:<7.4g}{:>{}}", *run.load, rate_text(run.offered_rps), kRowTextWidth);
  text += slowdown_cells(report, width);
  return text + share_cells(report) + end_of_row(report, slo);
}

std::string compare_row(const SimReport& report, const Slo& slo, Columns columns) {
  const RunReport& run = report.run;
  const LatencySummary& l = run.latency;
  const auto [latency, slowdown] = columns;
  std::string text = fmt::format("{:<{}}{:>{}}", run.policy, kNameWidth + 1,
                                 achieved_text(report), kAchievedWidth);
  text += percentile_cells(report, "latency_us", {l.p50_us, l.p99_us, l.p999_us}, time_text,
                           latency);
  text += slowdown_cells(report, slowdown);
  const SchedulerCounters& c = *run.counters;
  text += fmt::format("{:>11}{:>10}", c.preemptions, c.steals);
  return text + share_cells(report) + end_of_row(report, slo);
}

std::string compare_header(Columns columns) {
  const auto [latency, slowdown] = columns;
  const auto percentiles = [](int width) {
    return fmt::format("{:>{}}{:>{}}{:>{}}", "p50", width, "p99", width, "p99.9", width);
  };
  std::string text = fmt::format("{:<{}}{:>{}}{:>{}}  {}\n", "", kNameWidth + 1 + kAchievedWidth,
                                 "latency", 3 * latency, "slowdown", 3 * slowdown,
                                 "   p99.9 of the worst type");
  text += fmt::format("{:<{}}{:>{}}", "policy", kNameWidth + 1, "achieved", kAchievedWidth);
  text += percentiles(latency) + percentiles(slowdown);
  return text + fmt::format("{:>{}}  {:<{}}{:>11}{:>10}", "p99.9", slowdown, "of type", kNameWidth,
                            "preempted", "steals") +
         share_header() + "\n";
}

std::string slo_lines(const SimReport& report, const Slo& slo) {
  if (!slo.given()) return "";
  const SloResult result = judge(slo, report);
  std::string text;
  for (const SloFigure& figure : result.figures) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", figure_text(figure),
                        verdict_name(figure.verdict));
  }
  return fmt::format("SLO {}: {}\n", verdict_name(result.verdict), text);
}

std::string slo_title(const Slo& slo) { return slo.given() ? "SLO " + slo_text(slo) + "\n" : ""; }

// The sums over all runs of a table.
class Totals {
 public:
  void add(const SimReport& report) {
    requests_ += report.requests;
    events_ += report.events;
    wall_s_ += report.run.wall_s;
  }
  std::string line() const { return speed_line(requests_, events_, wall_s_); }

 private:
  uint64_t requests_ = 0, events_ = 0;
  double wall_s_ = 0;
};

// JSON has no infinity.
Json or_null(double half_width) {
  return std::isinf(half_width) ? Json(nullptr) : Json(half_width);
}

Json until_json(const SimReport& report) {
  Json targets = Json::array();
  for (const sim::ReachedPrecision& p : report.until) {
    targets.push_back(
        {{"metric", p.metric}, {"wanted", p.wanted}, {"reached", or_null(p.reached)}});
  }
  return {{"targets", std::move(targets)}, {"bounded", report.bounded > 0}};
}

Json slo_json(const Slo& slo, const SimReport& report) {
  const SloResult result = judge(slo, report);
  Json figures = Json::array();
  for (const SloFigure& figure : result.figures) {
    figures.push_back({{"metric", figure.metric},
                       {"limit", figure.limit},
                       {"figure", figure.figure},
                       {"half_width", or_null(figure.half_width)},
                       {"count", figure.count},
                       {"verdict", verdict_name(figure.verdict)}});
  }
  return {{"verdict", verdict_name(result.verdict)}, {"figures", std::move(figures)}};
}

Json limiter_json(const overload::LimiterReport& limiter) {
  Json json = {{"decisions", limiter.decisions},
               {"mean_requests", limiter.mean_underway},
               {"mean_levels", limiter.mean_levels},
               {"last_levels", limiter.limits.levels}};
  const bool counts = limiter.limits.underway != overload::kUnlimited;
  json["last_requests"] = counts ? Json(limiter.limits.underway) : Json();
  return json;
}

std::string limiter_line(const SimReport& report) {
  if (!report.limiter) return "";
  const overload::LimiterReport& limiter = *report.limiter;
  if (limiter.mean_underway > 0) {
    return fmt::format("limiter: {:.4g} requests inside at most on average, {} decisions\n",
                       limiter.mean_underway, limiter.decisions);
  }
  return fmt::format("limiter: lets in {:.1f} % of the levels of priority on average, {} "
                     "decisions\n",
                     100 * limiter.mean_levels, limiter.decisions);
}

Json json_of(const SimReport& report, const Slo& slo) {
  Json json = Json::parse(to_json(report.run));
  json["simulation"] = {{"requests", report.requests},
                        {"events", report.events},
                        {"simulated_s", report.simulated_s},
                        {"useful_share", report.useful_share},
                        {"stalled_share", report.stalled_share},
                        {"lost_share", report.lost_share},
                        {"refused_share", report.refused_share},
                        {"worker_utilization", report.worker_utilization},
                        {"seeds", report.seeds},
                        {"start_up", report.start_up}};
  json["verdict"] = sim::verdict_name(report.steadiness.verdict);
  json["verdict_reasons"] = report.steadiness.reasons;
  if (!report.until.empty()) json["until"] = until_json(report);
  if (slo.given()) json["slo"] = slo_json(slo, report);
  if (!report.plan.empty()) json["plan"] = report.plan;
  if (report.elastic) json["elastic"] = Json::parse(elastic_json(report));
  for (size_t why = 0; why < kRefusals; ++why) {
    json["refusals"][name_of(static_cast<Refusal>(why))] = report.refusals[why];
  }
  if (report.limiter) json["limiter"] = limiter_json(*report.limiter);
  if (report.moves) json["outcomes"] = Json::parse(outcomes_json(*report.moves));
  if (report.over_time) {
    json["over_time"] = Json::parse(timeline_json(*report.over_time, report.run.types));
  }
  if (report.confidence.empty()) return json;
  Json confidence = {{"level", 0.95}};
  for (const sim::Confidence& c : report.confidence) {
    confidence[Json::json_pointer(c.path)] = or_null(c.half_width);
  }
  json["confidence"] = std::move(confidence);
  return json;
}

std::string dump(const Json& json) {
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string sim_table(const SimReport& report, const Slo& slo) {
  const RunReport& run = report.run;
  const Columns columns = columns_of({&report, 1});
  std::string text = run.policy + "  " + circumstances(report) + header(columns);
  for (size_t i = 0; i < run.types.size(); ++i) {
    const TypeReport& type = run.types[i];
    text += row(report, fmt::format("/types/{}", i), type.name, type.count, type.latency,
                *type.slowdown, columns);
  }
  if (run.types.size() > 1) {
    text += row(report, "", name_of_all(type_names(run)), measured(run), run.latency,
                *run.slowdown, columns);
  }
  text += fmt::format("offered {} (load {:.4g}), achieved {}; lost {} ({} %), refused {} ({} %)\n",
                      rate_text(run.offered_rps), *run.load, achieved_text(report), run.lost,
                      lost_text(report), run.refused, refused_text(report));
  text += fmt::format(
      "workers busy {} %, with requests {} %",
      busy_text(report),
      with_interval(report, "/simulation/useful_share", report.useful_share, percent_text));
  if (report.stalled_share > 0) {
    text += fmt::format(", kept by stalls {:.3g} %", 100 * report.stalled_share);
  }
  text += fmt::format("; {:.4g} s simulated\n", report.simulated_s);
  text += counters_line(run) + elastic_lines(report) + limiter_line(report) +
          slo_lines(report, slo);
  return text + speed_line(report.requests, report.events, run.wall_s) + verdict_lines(report);
}

std::string plan_lines(const SimReport& report) {
  if (report.plan.empty()) return "";
  std::string text = fmt::format("plan of {} at the end of the run at load {:.4g}, seed {}\n",
                                 report.run.policy, *report.run.load, report.run.seed);
  for (const std::string& line : report.plan) text += "  " + line + "\n";
  return text;
}

std::string sweep_table(const std::vector<SimReport>& reports, const Slo& slo) {
  if (reports.empty()) return kNothing;
  const int width = columns_of(reports).slowdown;
  std::string text = reports.front().run.policy + "  " + circumstances(reports.front());
  text += slo_title(slo);
  text += fmt::format("{:<20}{:>{}}  {:<{}}\n", "", "slowdown of all", 3 * width,
                      "   p99.9 of the worst type", kNameWidth + 12);
  text += fmt::format("{:<7}{:>13}{:>{}}{:>{}}{:>{}}{:>{}}  {:<{}}", "load", "offered", "p50",
                      width, "p99", width, "p99.9", width, "p99.9", width, "of type", kNameWidth) +
          share_header() + "\n";
  Totals totals;
  for (const SimReport& report : reports) {
    text += sweep_row(report, slo, width);
    totals.add(report);
  }
  return text + totals.line();
}

std::string compare_table(const std::vector<SimReport>& reports, size_t policies, const Slo& slo) {
  if (reports.empty()) return kNothing;
  std::string text = circumstances(reports.front()) + slo_title(slo);
  const Columns columns = columns_of(reports);
  Totals totals;
  for (size_t i = 0; i < reports.size(); ++i) {
    const RunReport& run = reports[i].run;
    if (i % policies == 0) {
      text += fmt::format("\nload {:.4g}, {} offered\n", *run.load, rate_text(run.offered_rps)) +
              compare_header(columns);
    }
    text += compare_row(reports[i], slo, columns);
    totals.add(reports[i]);
  }
  return text + totals.line();
}

std::string sim_json(const SimReport& report, const Slo& slo) { return dump(json_of(report, slo)); }

std::string runs_json(const char* schema, const std::vector<SimReport>& reports, const Slo& slo) {
  Json runs = Json::array();
  for (const SimReport& report : reports) runs.push_back(json_of(report, slo));
  return dump({{"schema", schema}, {"runs", std::move(runs)}});
}

}  // namespace rubato::cli
