// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/max_load_output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/sim/sim_text.h"

namespace rubato::cli {
namespace {

using namespace planning;
using Json = nlohmann::ordered_json;

constexpr int kIndent = 1;
constexpr size_t kMostSeedsShown = 10;

std::string load_text(double load) { return fmt::format("{:.3f}", load); }
std::string krps_text(double rps) { return fmt::format("{:.1f}", rps / 1e3); }

std::string seeds_text(const MaxLoad& max) {
  std::string text;
  for (size_t i = 0; i < max.loads.size() && i < kMostSeedsShown; ++i) {
    text += fmt::format(" {:g}", max.loads[i]);
  }
  return max.loads.size() > kMostSeedsShown ? text + " ..." : text;
}

// A warning where the figure could be misread.
std::string caveat(const SimOptions& o, const MaxLoad& max) {
  if (max.at_most == max.loads.size()) {
    return fmt::format("  met at --max-load {:.2f}", o.max_load);
  }
  if (max.at_most > 0) return fmt::format("  {} met at --max-load", max.at_most);
  if (max.load.mean == 0) return fmt::format("  missed even at load {:g}", o.precision);
  return "";
}

std::string max_row(const SimOptions& o, const MaxLoad& max) {
  const std::string least = max.at_most > 0 ? ">= " : "";
  const double capacity = capacity_rps(o);
  const auto estimate = [&](double scale, std::string (*text)(double)) {
    const bool exact = max.loads.size() < 2 || max.at_most == max.loads.size();
    const std::string half = exact ? std::string() : "+-" + text(max.load.half_width * scale);
    return least + text(max.load.mean * scale) + half;
  };
  return fmt::format("{:<{}}{:>18}{:>22}{:>7} {}{}\n", max.candidate.policy, kNameWidth + 1,
                     estimate(1, load_text), estimate(capacity, krps_text), max.runs,
                     seeds_text(max), caveat(o, max));
}

Json settings_json(const sim::Settings& settings) {
  Json json = Json::object();
  for (const auto& [name, value] : settings) json[name] = value;
  return json;
}

Json result_json(const SimOptions& o, const MaxLoad& max) {
  const double capacity = capacity_rps(o);
  return {{"policy", max.candidate.policy},
          {"settings", settings_json(max.candidate.settings)},
          {"load", {{"mean", max.load.mean}, {"half_width", max.load.half_width}}},
          {"rate_rps",
           {{"mean", max.load.mean * capacity}, {"half_width", max.load.half_width * capacity}}},
          {"per_seed", max.loads},
          {"seeds_at_max_load", max.at_most},
          {"runs", max.runs}};
}

Json slo_json(const Slo& slo) {
  Json json = Json::array();
  for (const SloTarget& target : slo.targets) {
    json.push_back({{"metric", target.metric}, {"limit", target.limit}});
  }
  json.push_back({{"metric", "refused"}, {"limit", slo.refused}});
  return json;
}

}  // namespace

std::string max_table(const SimOptions& o, const std::vector<MaxLoad>& results) {
  if (results.empty()) return "no bisection came to its end\n";
  sim::SimReport title = results.front().last;
  title.run.seed = o.setup.seed;
  title.run.workload = o.workload;
  title.run.arrivals = o.arrivals;
  title.seeds = o.seeds;
  std::string text = circumstances(title) + "SLO " + slo_text(o.slo) + "\n\n";
  text += fmt::format("{:<{}}{:>18}{:>22}{:>7}  {}\n", "policy", kNameWidth + 1, "highest load",
                      "krps", "runs", "of each seed");
  uint64_t requests = 0, events = 0;
  double wall_s = 0;
  for (const MaxLoad& max : results) {
    text += max_row(o, max);
    requests += max.requests;
    events += max.events;
    wall_s += max.wall_s;
  }
  text += fmt::format("in steps of {:g}\n", o.precision);
  return text + speed_line(requests, events, wall_s);
}

std::string max_json(const SimOptions& o, const std::vector<MaxLoad>& results,
                     const std::string& version) {
  Json list = Json::array();
  double wall_s = 0;
  for (const MaxLoad& max : results) {
    list.push_back(result_json(o, max));
    wall_s += max.wall_s;
  }
  Json json = {{"schema", "rubato.max/1"},
               {"workers", o.setup.workers},
               {"workload", o.workload},
               {"arrivals", o.arrivals},
               {"cost_model", o.setup.costs.name},
               {"seed", o.setup.seed},
               {"seeds", o.seeds},
               {"slo", slo_json(o.slo)},
               {"max_load", o.max_load},
               {"precision", o.precision},
               {"settings", settings_json(o.notes)},
               {"results", std::move(list)},
               {"wall_s", o.no_wall ? 0 : wall_s},
               {"version", version}};
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rubato::cli
