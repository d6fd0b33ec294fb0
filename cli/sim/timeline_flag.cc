// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/timeline_flag.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/common/value_flags.h"
#include "cli/sim/sim_text.h"
#include "workload/duration.h"

namespace rubato::cli {
namespace {

using sim::Timeline;
using Json = nlohmann::ordered_json;

std::string table(const Timeline& timeline, const std::vector<TypeReport>& types) {
  std::string text = fmt::format("{:<12}", "sent from");
  for (const TypeReport& type : types) {
    text += fmt::format("{:>{}}{:>10}{:>10}", type.name + " p50", kNameWidth, "p99", "p99.9");
  }
  text += '\n';
  for (size_t window = 0; window < timeline.windows(); ++window) {
    text += fmt::format("{:<12}", time_text(timeline.begin_of(window).micros()));
    for (size_t type = 0; type < types.size(); ++type) {
      const Histogram& latency = timeline.of(window, type);
      const auto shown = [&](double percent) {
        return latency.empty() ? "-" : time_text(latency.percentile(percent).micros());
      };
      text += fmt::format("{:>{}}{:>10}{:>10}", shown(50), kNameWidth, shown(99), shown(99.9));
    }
    text += '\n';
  }
  return text;
}

}  // namespace

void add_timeline_option(CommandLine& command, SimOptions& o) {
  const auto parse = [&o](const std::string& text) -> Status {
    const auto window = parse_duration(text);
    if (!window || *window <= Nanos()) {
      return Error{"takes a time like 100ms, not '" + text + "'"};
    }
    o.over_time = *window;
    return Done{};
  };
  command.add_parsed(
      "--over-time", "TIME", parse,
      fmt::format("Also report latencies by when requests were sent, in windows of TIME, which is "
                  "doubled where all types would have more than {}",
                  Timeline::kMostCells));
}

void check_timeline(const SimOptions& o) {
  if (o.over_time == Nanos()) return;
  if (o.find_max) bad_value("--over-time", "takes runs at given loads: no --find-max");
  if (o.outcomes.given()) bad_value("--over-time", "does not go with --outcomes");
}

std::string timeline_text(const std::vector<sim::SimReport>& reports) {
  std::string text;
  for (const sim::SimReport& report : reports) {
    if (!report.over_time) continue;
    text += fmt::format("over time, windows of {}",
                        time_text(report.over_time->window().micros()));
    if (reports.size() > 1) {
      text += fmt::format(", {} at load {:.4g}", report.run.policy, *report.run.load);
    }
    text += ":\n" + table(*report.over_time, report.run.types);
  }
  return text;
}

std::string timeline_json(const Timeline& timeline, const std::vector<TypeReport>& types) {
  Json windows = Json::array();
  for (size_t window = 0; window < timeline.windows(); ++window) {
    Json of_types = Json::array();
    for (size_t type = 0; type < types.size(); ++type) {
      const LatencySummary latency = summarize_latency(timeline.of(window, type));
      of_types.push_back({{"name", types[type].name},
                          {"count", timeline.of(window, type).count()},
                          {"mean_us", latency.mean_us},
                          {"p50_us", latency.p50_us},
                          {"p99_us", latency.p99_us},
                          {"p999_us", latency.p999_us},
                          {"max_us", latency.max_us}});
    }
    windows.push_back(
        {{"from_us", timeline.begin_of(window).micros()}, {"types", std::move(of_types)}});
  }
  return Json{{"window_us", timeline.window().micros()}, {"windows", std::move(windows)}}.dump();
}

std::vector<HdrInterval> timeline_intervals(const Timeline& timeline,
                                            const std::vector<TypeReport>& types,
                                            const std::string& prefix) {
  std::vector<HdrInterval> intervals;
  for (size_t window = 0; window < timeline.windows(); ++window) {
    for (size_t type = 0; type < types.size(); ++type) {
      if (timeline.of(window, type).empty()) continue;
      intervals.push_back({prefix + types[type].name, timeline.begin_of(window).seconds(),
                           timeline.window().seconds(), timeline.of(window, type)});
    }
  }
  return intervals;
}

}  // namespace rubato::cli
