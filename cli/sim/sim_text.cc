// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/sim_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "metrics/buckets.h"
#include "planning/report_figures.h"

namespace rubato::cli {

using namespace planning;

namespace {

std::string share_text(double share) { return fmt::format("{:.3g}", share); }

}  // namespace

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

std::string with_interval(double figure, double half_width, std::string (*text)(double)) {
  return text(figure) + "+-" + (std::isinf(half_width) ? "?" : text(half_width));
}

std::string with_interval(const sim::SimReport& report, std::string_view path, double figure,
                          std::string (*text)(double)) {
  if (report.confidence.empty()) return text(figure);
  return with_interval(figure, half_width(report, path), text);
}

std::string circumstances(const sim::SimReport& report) {
  const RunReport& run = report.run;
  const std::string seeds =
      report.seeds < 2 ? fmt::format("seed {}", run.seed)
                       : fmt::format("seeds {} to {}", run.seed, run.seed + report.seeds - 1);
  return fmt::format("{} workers  {}  {} arrivals  costs {}  {}\n", run.workers, run.workload,
                     run.arrivals, run.cost_model, seeds);
}

std::string verdict_text(std::string_view verdict, const std::vector<std::string>& reasons) {
  std::string text(verdict);
  for (size_t i = 0; i < reasons.size(); ++i) text += (i == 0 ? ": " : "; ") + reasons[i];
  return text;
}

std::string verdict_text(const sim::Steadiness& found) {
  return verdict_text(sim::verdict_name(found.verdict), found.reasons);
}

std::string invalid_text(std::string_view reason) {
  return fmt::format("INVALID run: {}\n", reason);
}

std::string overflow_line(uint64_t latencies) {
  if (latencies == 0) return "";
  return fmt::format("{} latencies of {} or more count as that: figures they are in are too low\n",
                     latencies, time_text(static_cast<double>(buckets::kTop) / 1e3));
}

std::string figure_text(const SloFigure& figure) {
  if (figure.count == 0) return figure.metric + ": none was measured";
  const std::string limit = fmt::format(" (limit {})", limit_text(figure.kind, figure.limit));
  const auto text = figure.kind == FigureKind::kShare     ? share_text
                    : figure.kind == FigureKind::kLatency ? time_text
                                                          : ratio_text;
  const std::string value = figure.half_width > 0
                                ? with_interval(figure.figure, figure.half_width, text)
                                : text(figure.figure);
  return figure.metric + " " + value + limit;
}

std::string name_of_all(const std::vector<std::string>& types) {
  const bool taken = std::find(types.begin(), types.end(), "all") != types.end();
  return taken ? "all types" : "all";
}

double percent(uint64_t part, uint64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string speed_line(uint64_t requests, uint64_t events, double wall_s) {
  const double rate = wall_s > 0 ? static_cast<double>(requests) / wall_s / 1e6 : 0;
  return fmt::format("simulated {} requests, {} events in {:.2f} s: {:.2f} million per second\n",
                     requests, events, wall_s, rate);
}

const TypeReport* worst_type(const RunReport& run) {
  const TypeReport* worst = nullptr;
  for (const TypeReport& type : run.types) {
    if (type.count == 0) continue;
    if (worst == nullptr || type.slowdown->p999 > worst->slowdown->p999) worst = &type;
  }
  return worst;
}

}  // namespace rubato::cli
