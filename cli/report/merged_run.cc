// SPDX-License-Identifier: Apache-2.0
#include "cli/report/merged_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "metrics/histogram_json.h"
#include "metrics/run_report.h"
#include "sim/report.h"

namespace rubato::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kLatency = "latency_histogram_ns";
constexpr const char* kSlowdown = "slowdown_histogram_thousandths";
// What must be the same, what is added up, and what is a mean. The rest is of one run, and goes.
constexpr const char* kSame[] = {"schema", "kind",     "policy",     "workers",
                                 "workload", "arrivals", "load",     "settings",
                                 "cost_model", "version"};
constexpr const char* kSums[] = {"requests", "refused", "lost", "errors", "timeouts"};
constexpr const char* kTypeSums[] = {"count", "refused", "errors", "lost"};
constexpr const char* kMeans[] = {"offered_rps", "achieved_rps", "utilization"};
constexpr const char* kVerdict[] = {"verdict", "verdict_reasons"};
constexpr const char* kValid[] = {"valid", "invalid_reason"};

struct NamedPercentile {
  const char* name;
  double percent;
};
constexpr NamedPercentile kPercentiles[] = {
    {"p50", 50}, {"p90", 90}, {"p99", 99}, {"p999", 99.9}, {"p9999", 99.99}};

// `unit` is what the figures are in, of what the histogram holds. Of a part a percentile is null if
// no request is beyond it.
Json figures_of(const Histogram& h, double unit, bool of_part) {
  Json json = {{"mean", h.mean_ns() / unit}};
  for (const auto& [name, percent] : kPercentiles) {
    const bool has_beyond = static_cast<double>(h.count()) * (100 - percent) >= 100 - 1e-6;
    const auto figure = static_cast<double>(h.percentile(percent).count()) / unit;
    json[name] = has_beyond || !of_part ? Json(figure) : Json(nullptr);
  }
  return json;
}

Json latency_json(const Histogram& h, bool of_part) {
  Json json = figures_of(h, 1e3, of_part);
  if (!of_part) json["max"] = h.max().micros();
  return json;
}

Json slowdown_json(const Histogram& h, bool of_part) {
  return h.empty() ? Json(nullptr) : figures_of(h, kSlowdownUnit, of_part);
}

uint64_t count_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

// A histogram of `type`; empty where it has none because nothing was recorded.
Result<Histogram> histogram_of(const Json& type, const char* key) {
  const auto found = type.find(key);
  if (found != type.end()) return parse_histogram(*found);
  if (count_in(type, "count") == 0 || key == std::string_view(kSlowdown)) return Histogram();
  return Error{"has no whole histograms, as `rubato sim --json` writes them"};
}

Result<std::vector<WholeHistograms>> histograms_of(const Json& run) {
  std::vector<WholeHistograms> all;
  for (const Json& type : run["types"]) {
    if (!type.is_object() || !type.value("name", Json()).is_string()) {
      return Error{"has types without a name"};
    }
    Result<Histogram> latency = histogram_of(type, kLatency);
    Result<Histogram> slowdown = histogram_of(type, kSlowdown);
    if (!latency) return Error{latency.error()};
    if (!slowdown) return Error{slowdown.error()};
    all.push_back({std::move(*latency), std::move(*slowdown)});
  }
  return all;
}

WholeHistograms sum_of(const std::vector<WholeHistograms>& types) {
  WholeHistograms all;
  for (const WholeHistograms& type : types) {
    all.latency.merge(type.latency);
    all.slowdown.merge(type.slowdown);
  }
  return all;
}

Json figures_json(const WholeHistograms& all, bool of_part) {
  return {{"latency_us", latency_json(all.latency, of_part)},
          {"slowdown", slowdown_json(all.slowdown, of_part)}};
}

template <class Keys>
void copy(const Json& from, const Keys& keys, Json& to) {
  for (const char* key : keys) {
    if (from.contains(key)) to[key] = from[key];
  }
}

// What the merged report keeps of one run.
Json part_of(const Json& run, const std::vector<WholeHistograms>& types) {
  Json part = {{"seed", count_in(run, "seed")}};
  const Json simulation = run.value("simulation", Json());
  part["seeds"] = simulation.is_object() ? count_in(simulation, "seeds") : 1;
  copy(run, kValid, part);
  copy(run, kVerdict, part);
  copy(run, kMeans, part);
  part.update(figures_json(sum_of(types), true));
  part["types"] = Json::array();
  for (const WholeHistograms& type : types) part["types"].push_back(figures_json(type, true));
  return part;
}

bool is_part(const Json& json) {
  const auto is_whole = [&json](const char* key) {
    return json.contains(key) && json[key].is_number_unsigned();
  };
  return json.is_object() && is_whole("seed") && is_whole("seeds") &&
         json.value("valid", Json()).is_boolean();
}

Result<std::vector<Json>> parts_of(const Json& run, const std::vector<WholeHistograms>& types) {
  if (!run.contains("merged")) {
    if (!run.value("valid", Json()).is_boolean()) return Error{"does not say whether it is valid"};
    return std::vector<Json>{part_of(run, types)};
  }
  const Json parts = run.value("parts", Json::array());
  if (!parts.is_array() || parts.empty() || !std::all_of(parts.begin(), parts.end(), is_part)) {
    return Error{"was merged without a list of its seeds: merge its parts again"};
  }
  return std::vector<Json>(parts.begin(), parts.end());
}

// The seed that both have.
std::optional<uint64_t> common_seed(const Json& a, const Json& b) {
  const uint64_t from_a = count_in(a, "seed"), from_b = count_in(b, "seed");
  const uint64_t first = std::max(from_a, from_b);
  const bool in_both =
      first - from_a < count_in(a, "seeds") && first - from_b < count_in(b, "seeds");
  return in_both ? std::optional(first) : std::nullopt;
}

// "" = two runs. Of a live server the same seed gives the same requests but other times.
std::string why_same(const Json& a, const Json& b, bool simulated) {
  if (!simulated) return a == b ? "are the same run" : "";
  const std::optional<uint64_t> seed = common_seed(a, b);
  return seed ? fmt::format("both have seed {}", *seed) : "";
}

// Of several verdicts the worst; -1 = the part has none.
int badness(const Json& part) {
  using sim::RunState;
  for (const RunState state : {RunState::kOverloaded, RunState::kNotSteady, RunState::kSteady}) {
    if (part.value("verdict", Json()) == sim::verdict_name(state)) return static_cast<int>(state);
  }
  return -1;
}

std::vector<double> samples_of(const std::vector<Json>& parts, const Json::json_pointer& at) {
  std::vector<double> samples;
  for (const Json& part : parts) {
    if (part.contains(at) && part[at].is_number()) samples.push_back(part[at].get<double>());
  }
  return samples;
}

// So that figure +- it covers the interval of the mean over the parts; null = they do not tell.
Json half_width(const std::vector<Json>& parts, const Json::json_pointer& at, double figure) {
  const std::vector<double> samples = samples_of(parts, at);
  if (samples.size() < parts.size() || samples.size() < 2) return nullptr;
  const sim::Estimate mean = sim::estimate(samples);
  return mean.half_width + std::abs(mean.mean - figure);
}

Json confidence_of(const Json& report, const std::vector<Json>& parts) {
  Json confidence = {{"level", 0.95}};
  const auto add = [&](const std::string& path) {
    const Json::json_pointer at(path);
    if (!report.contains(at) || !report[at].is_number()) return;
    confidence[at] = half_width(parts, at, report[at].get<double>());
  };
  const auto add_figures = [&add](const std::string& at) {
    for (const char* what : {"/latency_us/", "/slowdown/"}) {
      add(at + what + "mean");
      for (const auto& percentile : kPercentiles) add(at + what + percentile.name);
    }
  };
  add("/achieved_rps");
  add("/utilization");
  add_figures("");
  for (size_t i = 0; i < report["types"].size(); ++i) add_figures(fmt::format("/types/{}", i));
  return confidence;
}

class MergedRun {
 public:
  Status add(const Json& run, const std::string& file);
  Json report() const;

 private:
  struct Part {
    Json said;
    std::string file;
  };

  Status check(const Json& run, const std::string& file) const;
  Status check_seeds(const std::vector<Json>& parts, bool simulated, const std::string& file) const;
  void sum_up(const Json& run, const std::vector<WholeHistograms>& types);

  Json kept_;  // what is the same in all, and sums
  std::vector<Part> parts_;
  std::vector<WholeHistograms> types_;
};

Status MergedRun::check(const Json& run, const std::string& file) const {
  if (parts_.empty()) return Done{};
  const auto other = [&](const std::string& what) {
    return Error{fmt::format("'{}' has another {} than '{}'", file, what, parts_.front().file)};
  };
  for (const char* key : kSame) {
    const bool mine = kept_.contains(key), theirs = run.contains(key);
    if (mine != theirs || (mine && kept_[key] != run[key])) return other(fmt::format("'{}'", key));
  }
  const Json &mine = kept_["types"], &theirs = run["types"];
  const auto same = [](const Json& a, const Json& b) { return a["name"] == b["name"]; };
  if (!std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(), same)) {
    return other("list of types");
  }
  return Done{};
}

Status MergedRun::check_seeds(const std::vector<Json>& parts, bool simulated,
                              const std::string& file) const {
  for (const Json& part : parts) {
    for (const Part& other : parts_) {
      const std::string same = why_same(other.said, part, simulated);
      if (!same.empty()) return Error{fmt::format("'{}' and '{}' {}", other.file, file, same)};
    }
  }
  return Done{};
}

Status MergedRun::add(const Json& run, const std::string& file) {
  Result<std::vector<WholeHistograms>> types = histograms_of(run);
  if (!types) return Error{"'" + file + "' " + types.error()};
  Result<std::vector<Json>> parts = parts_of(run, *types);
  if (!parts) return Error{"'" + file + "' " + parts.error()};
  if (Status fits = check(run, file); !fits) return fits;
  const bool simulated = run.value("kind", Json()) == "sim";
  if (Status fits = check_seeds(*parts, simulated, file); !fits) return fits;
  sum_up(run, *types);
  for (Json& part : *parts) parts_.push_back({std::move(part), file});
  return Done{};
}

void MergedRun::sum_up(const Json& run, const std::vector<WholeHistograms>& types) {
  if (parts_.empty()) {
    copy(run, kSame, kept_);
    kept_["seed"] = count_in(run, "seed");
    for (const char* key : kSums) kept_[key] = count_in(run, key);
    kept_["types"] = run["types"];
    types_ = types;
    return;
  }
  for (const char* key : kSums) kept_[key] = count_in(kept_, key) + count_in(run, key);
  for (size_t i = 0; i < types_.size(); ++i) {
    types_[i].latency.merge(types[i].latency);
    types_[i].slowdown.merge(types[i].slowdown);
    Json& type = kept_["types"][i];
    for (const char* key : kTypeSums) {
      type[key] = count_in(type, key) + count_in(run["types"][i], key);
    }
  }
}

Json MergedRun::report() const {
  std::vector<Json> parts;
  for (const Part& part : parts_) parts.push_back(part.said);
  Json report = kept_;
  for (size_t i = 0; i < types_.size(); ++i) {
    Json& type = report["types"][i];
    type.update(figures_json(types_[i], false));
    if (!types_[i].latency.empty()) type[kLatency] = histogram_json(types_[i].latency);
    if (!types_[i].slowdown.empty()) type[kSlowdown] = histogram_json(types_[i].slowdown);
  }
  report.update(figures_json(sum_of(types_), false));
  for (const char* key : kMeans) {
    const std::vector<double> samples =
        samples_of(parts, Json::json_pointer(std::string("/") + key));
    report[key] = samples.empty() ? Json(nullptr) : Json(sim::estimate(samples).mean);
  }
  const auto bad = [](const Json& part) { return !part["valid"].get<bool>(); };
  const auto invalid = std::find_if(parts.begin(), parts.end(), bad);
  copy(invalid != parts.end() ? *invalid : parts.front(), kValid, report);
  copy(*std::max_element(parts.begin(), parts.end(),
                         [](const Json& a, const Json& b) { return badness(a) < badness(b); }),
       kVerdict, report);
  report["confidence"] = confidence_of(report, parts);
  report["merged"] = parts.size();
  report["parts"] = parts;
  return report;
}

}  // namespace

Result<Json> merge_runs(const std::vector<NamedRun>& runs) {
  MergedRun merged;
  for (const NamedRun& one : runs) {
    if (Status added = merged.add(*one.run, one.file); !added) return Error{added.error()};
  }
  return merged.report();
}

}  // namespace rubato::cli
