// SPDX-License-Identifier: Apache-2.0
#include "cli/sim_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace rubato::cli {
namespace {

using sim::SimReport;
using Json = nlohmann::ordered_json;

constexpr int kIndent = 1;
constexpr size_t kNameWidth = 14;

std::string time_text(double us) {
  if (us >= 1e6) return fmt::format("{:.2f}s", us / 1e6);
  if (us >= 1e5) return fmt::format("{:.0f}ms", us / 1e3);
  if (us >= 1e4) return fmt::format("{:.1f}ms", us / 1e3);
  if (us >= 1e3) return fmt::format("{:.2f}ms", us / 1e3);
  if (us >= 100) return fmt::format("{:.0f}us", us);
  return fmt::format("{:.2f}us", us);
}

std::string ratio_text(double ratio) {
  if (ratio >= 1e6) return fmt::format("{:.2e}", ratio);
  return ratio >= 100 ? fmt::format("{:.0f}", ratio) : fmt::format("{:.2f}", ratio);
}

std::string rate_text(double rps) {
  if (rps >= 1e6) return fmt::format("{:.3f} Mrps", rps / 1e6);
  return rps >= 1e4 ? fmt::format("{:.1f} krps", rps / 1e3) : fmt::format("{:.1f} rps", rps);
}

double half_width(const SimReport& report, std::string_view path) {
  for (const sim::Confidence& confidence : report.confidence) {
    if (confidence.path == path) return confidence.half_width;
  }
  return 0;
}

// A cell, with its interval when there are several seeds.
template <class Text>
std::string with_interval(const SimReport& report, const std::string& path, double figure,
                          Text&& text) {
  if (report.seeds < 2) return text(figure);
  return text(figure) + "+-" + text(half_width(report, path));
}

struct Columns {
  int latency, slowdown;
};
Columns columns_of(const SimReport& report) {
  return report.seeds < 2 ? Columns{9, 9} : Columns{17, 15};
}

std::string header(const SimReport& report) {
  const auto [latency, slowdown] = columns_of(report);
  std::string text = fmt::format("{:<{}}{:>11}", "latency", kNameWidth, "measured");
  for (const char* name : {"mean", "p50", "p90", "p99", "p99.9"}) {
    text += fmt::format("{:>{}}", name, latency);
  }
  text += fmt::format("{:>9}  slowdown", "max");
  for (const char* name : {"p50", "p99", "p99.9"}) text += fmt::format("{:>{}}", name, slowdown);
  return text + "\n";
}

std::string row(const SimReport& report, const std::string& at, const std::string& name,
                uint64_t count, const LatencySummary& l, const SlowdownSummary& s) {
  const auto [latency, slowdown] = columns_of(report);
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

uint64_t measured(const RunReport& run) {
  uint64_t count = 0;
  for (const TypeReport& type : run.types) count += type.count;
  return count;
}

double percent(uint64_t part, uint64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string title(const SimReport& report) {
  const RunReport& run = report.run;
  const std::string seeds =
      report.seeds < 2 ? fmt::format("seed {}", run.seed)
                       : fmt::format("seeds {} to {}", run.seed, run.seed + report.seeds - 1);
  return fmt::format("{}  {} workers  {}  {} arrivals  costs {}  {}\n", run.policy, run.workers,
                     run.workload, run.arrivals, run.cost_model, seeds);
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

std::string speed_line(uint64_t requests, uint64_t events, double wall_s) {
  const double rate = wall_s > 0 ? static_cast<double>(requests) / wall_s / 1e6 : 0;
  return fmt::format("simulated {} requests, {} events in {:.2f} s: {:.2f} million per second\n",
                     requests, events, wall_s, rate);
}

std::string verdict(const RunReport& run) {
  return run.valid ? "" : "INVALID run: " + run.invalid_reason + "\n";
}

// The type whose p99.9 slowdown is worst; null if nothing was measured.
const TypeReport* worst_type(const RunReport& run) {
  const TypeReport* worst = nullptr;
  for (const TypeReport& type : run.types) {
    if (type.count == 0) continue;
    if (worst == nullptr || type.slowdown->p999 > worst->slowdown->p999) worst = &type;
  }
  return worst;
}

std::string sweep_row(const SimReport& report) {
  const RunReport& run = report.run;
  std::string text = fmt::format("{:<7.4g}{:>13}", *run.load, rate_text(run.offered_rps));
  const int width = report.seeds < 2 ? 10 : 18;
  const std::pair<const char*, double> slowdowns[] = {
      {"p50", run.slowdown->p50}, {"p99", run.slowdown->p99}, {"p999", run.slowdown->p999}};
  for (const auto& [key, ratio] : slowdowns) {
    const std::string path = std::string("/slowdown/") + key;
    text += fmt::format("{:>{}}", with_interval(report, path, ratio, ratio_text), width);
  }
  const TypeReport* worst = worst_type(run);
  if (worst == nullptr) return text + "   none was measured\n";
  const std::string path = fmt::format("/types/{}/slowdown/p999", worst - run.types.data());
  text += fmt::format("{:>{}}  {:<{}}",
                      with_interval(report, path, worst->slowdown->p999, ratio_text), width,
                      worst->name.substr(0, kNameWidth - 1), kNameWidth);
  text += fmt::format("{:>8.3f}{:>11.3f}{:>8.1f}", percent(run.lost, run.requests),
                      percent(run.refused, run.requests), 100 * *run.utilization);
  return text + (run.valid ? "\n" : "  INVALID: " + run.invalid_reason + "\n");
}

Json json_of(const SimReport& report) {
  Json json = Json::parse(to_json(report.run));
  json["simulation"] = {{"requests", report.requests},
                        {"events", report.events},
                        {"simulated_s", report.simulated_s},
                        {"useful_share", report.useful_share},
                        {"worker_utilization", report.worker_utilization},
                        {"seeds", report.seeds}};
  if (report.confidence.empty()) return json;
  Json confidence = {{"level", 0.95}};
  for (const sim::Confidence& c : report.confidence) {
    confidence[Json::json_pointer(c.path)] = c.half_width;
  }
  json["confidence"] = std::move(confidence);
  return json;
}

std::string dump(const Json& json) {
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string sim_table(const SimReport& report) {
  const RunReport& run = report.run;
  std::string text = title(report) + header(report);
  for (size_t i = 0; i < run.types.size(); ++i) {
    const TypeReport& type = run.types[i];
    text += row(report, fmt::format("/types/{}", i), type.name, type.count, type.latency,
                *type.slowdown);
  }
  if (run.types.size() > 1) text += row(report, "", "all", measured(run), run.latency,
                                        *run.slowdown);
  text += fmt::format("offered {} (load {:.4g}), achieved {}; lost {} ({:.3f} %), refused {} "
                      "({:.3f} %)\n",
                      rate_text(run.offered_rps), *run.load, rate_text(run.achieved_rps), run.lost,
                      percent(run.lost, run.requests), run.refused,
                      percent(run.refused, run.requests));
  text += fmt::format("workers busy {:.1f} %, with requests {:.1f} %; {:.4g} s simulated\n",
                      100 * *run.utilization, 100 * report.useful_share, report.simulated_s);
  return text + counters_line(run) + speed_line(report.requests, report.events, run.wall_s) +
         verdict(run);
}

std::string sweep_table(const std::vector<SimReport>& reports) {
  if (reports.empty()) return "nothing was simulated\n";
  const int width = reports.front().seeds < 2 ? 10 : 18;
  std::string text = title(reports.front());
  text += fmt::format("{:<20}{:>{}}  {:<{}}\n", "", "slowdown of all", 3 * width,
                      "   p99.9 of the worst type", kNameWidth + 12);
  text += fmt::format("{:<7}{:>13}{:>{}}{:>{}}{:>{}}{:>{}}  {:<{}}{:>8}{:>11}{:>8}\n", "load",
                      "offered", "p50", width, "p99", width, "p99.9", width, "p99.9", width,
                      "of type", kNameWidth, "lost %", "refused %", "busy %");
  uint64_t requests = 0, events = 0;
  double wall_s = 0;
  for (const SimReport& report : reports) {
    text += sweep_row(report);
    requests += report.requests;
    events += report.events;
    wall_s += report.run.wall_s;
  }
  return text + speed_line(requests, events, wall_s);
}

std::string sim_json(const SimReport& report) { return dump(json_of(report)); }

std::string sweep_json(const std::vector<SimReport>& reports) {
  Json runs = Json::array();
  for (const SimReport& report : reports) runs.push_back(json_of(report));
  return dump({{"schema", "rubato.sweep/1"}, {"runs", std::move(runs)}});
}

}  // namespace rubato::cli
