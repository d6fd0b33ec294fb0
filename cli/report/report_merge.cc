// SPDX-License-Identifier: Apache-2.0
#include "cli/report/report_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "metrics/histogram_json.h"
#include "metrics/run_report.h"

namespace rubato::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kLatency = "latency_histogram_ns";
constexpr const char* kSlowdown = "slowdown_histogram_thousandths";
// What must be the same, and what is added up. Everything else that is not computed anew goes.
constexpr const char* kSame[] = {"schema", "kind",     "policy",     "workers", "workload",
                                 "load",   "settings", "cost_model", "version"};
constexpr const char* kSums[] = {"requests", "refused", "lost", "errors", "timeouts"};

Json latency_json(const Histogram& h) {
  const auto at = [&h](double percent) { return h.percentile(percent).micros(); };
  return {{"mean", h.mean_ns() / 1e3}, {"p50", at(50)},      {"p90", at(90)}, {"p99", at(99)},
          {"p999", at(99.9)},          {"p9999", at(99.99)}, {"max", at(100)}};
}

Json slowdown_json(const Histogram& h) {
  const auto at = [&h](double percent) {
    return static_cast<double>(h.percentile(percent).count()) / kSlowdownUnit;
  };
  return {{"mean", h.mean_ns() / kSlowdownUnit}, {"p50", at(50)},      {"p90", at(90)},
          {"p99", at(99)},                       {"p999", at(99.9)},   {"p9999", at(99.99)}};
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

Status add_histogram(Json& into, const Json& from, const char* key, Histogram& all) {
  Result<Histogram> sum = histogram_of(into, key), more = histogram_of(from, key);
  if (!sum) return Error{sum.error()};
  if (!more) return Error{more.error()};
  sum->merge(*more);
  all.merge(*more);
  if (!sum->empty()) into[key] = histogram_json(*sum);
  return Done{};
}

Status add_types(Json& into, const Json& from) {
  const auto mine = into.find("types");
  const auto theirs = from.find("types");
  if (mine == into.end() || theirs == from.end() || !mine->is_array() || !theirs->is_array() ||
      mine->size() != theirs->size()) {
    return Error{"has other types"};
  }
  for (size_t i = 0; i < mine->size(); ++i) {
    Json& type = (*mine)[i];
    const Json& other = (*theirs)[i];
    if (!type.is_object() || !other.is_object() || !type.contains("name") ||
        type["name"] != other.value("name", "")) {
      return Error{"has other types"};
    }
    Histogram ignored;
    for (const char* key : {kLatency, kSlowdown}) {
      if (Status added = add_histogram(type, other, key, ignored); !added) return added;
    }
    for (const char* key : {"count", "refused", "errors", "lost"}) {
      type[key] = count_in(type, key) + count_in(other, key);
    }
  }
  return Done{};
}

Status add_run(Json& into, const Json& from) {
  for (const char* key : kSame) {
    const auto mine = into.find(key);
    const auto theirs = from.find(key);
    const bool both = mine != into.end() && theirs != from.end();
    if (both ? *mine == *theirs : (mine == into.end()) == (theirs == from.end())) continue;
    return Error{fmt::format("has another '{}'", key)};
  }
  for (const char* key : kSums) into[key] = count_in(into, key) + count_in(from, key);
  for (const char* key : {"offered_rps", "achieved_rps", "utilization"}) {
    if (into.contains(key) && into[key].is_number() && from.contains(key) &&
        from[key].is_number()) {
      into[key] = into[key].get<double>() + from[key].get<double>();  // divided in finish_run()
    }
  }
  into["valid"] = into.value("valid", false) && from.value("valid", false);
  return add_types(into, from);
}

Status finish_run(Json& run, size_t files) {
  Histogram latency, slowdown;
  for (Json& type : run["types"]) {
    Result<Histogram> of_type = histogram_of(type, kLatency);
    Result<Histogram> ratio = histogram_of(type, kSlowdown);
    if (!of_type) return Error{of_type.error()};
    if (!ratio) return Error{ratio.error()};
    type["latency_us"] = latency_json(*of_type);
    if (!ratio->empty()) type["slowdown"] = slowdown_json(*ratio);
    latency.merge(*of_type);
    slowdown.merge(*ratio);
  }
  run["latency_us"] = latency_json(latency);
  run["slowdown"] = slowdown.empty() ? Json(nullptr) : slowdown_json(slowdown);
  for (const char* key : {"offered_rps", "achieved_rps", "utilization"}) {
    if (run.contains(key) && run[key].is_number()) {
      run[key] = run[key].get<double>() / static_cast<double>(files);
    }
  }
  run["merged"] = files;
  return Done{};
}

// Without the keys that are of one run alone.
Json kept_of(const Json& run) {
  constexpr const char* kComputed[] = {"seed",  "offered_rps", "achieved_rps", "valid",
                                       "types", "utilization"};
  Json kept = Json::object();
  const auto keep = [&](const char* key) {
    if (run.contains(key)) kept[key] = run[key];
  };
  for (const char* key : kSame) keep(key);
  for (const char* key : kComputed) keep(key);
  for (const char* key : kSums) keep(key);
  return kept;
}

bool is_run(const Json& json) {
  return json.is_object() && json.value("schema", Json()) == "rubato.run/1" &&
         json.contains("types") && json["types"].is_array();
}

Result<std::vector<Json>> runs_in(const NamedText& file) {
  const Json json = Json::parse(file.text, nullptr, false);
  const Error no_report{"'" + file.name + "' is no rubato.run/1, sweep/1 or compare/1"};
  if (is_run(json)) return std::vector<Json>{kept_of(json)};
  if (!json.is_object() || !json.contains("runs") || !json["runs"].is_array()) return no_report;
  std::vector<Json> runs;
  for (const Json& run : json["runs"]) {
    if (!is_run(run)) return no_report;
    runs.push_back(kept_of(run));
  }
  if (runs.empty()) return no_report;
  return runs;
}

}  // namespace

Result<Json> merge_reports(const std::vector<NamedText>& files) {
  std::vector<Json> merged;
  for (const NamedText& file : files) {
    Result<std::vector<Json>> runs = runs_in(file);
    if (!runs) return Error{runs.error()};
    if (merged.empty()) {
      merged = std::move(*runs);
      continue;
    }
    if (runs->size() != merged.size()) {
      return Error{fmt::format("'{}' has {} runs, not {}", file.name, runs->size(), merged.size())};
    }
    for (size_t i = 0; i < merged.size(); ++i) {
      if (Status added = add_run(merged[i], (*runs)[i]); !added) {
        return Error{fmt::format("'{}' {}", file.name, added.error())};
      }
    }
  }
  for (Json& run : merged) {
    if (Status done = finish_run(run, files.size()); !done) {
      return Error{fmt::format("'{}' {}", files.front().name, done.error())};
    }
  }
  if (merged.size() == 1) return std::move(merged.front());
  Json all = {{"schema", "rubato.sweep/1"}, {"runs", Json::array()}};
  for (Json& run : merged) all["runs"].push_back(std::move(run));
  return all;
}

Result<std::vector<HdrInterval>> merge_logs(const std::vector<NamedText>& files) {
  std::vector<HdrInterval> merged;
  for (const NamedText& file : files) {
    Result<std::vector<HdrInterval>> log = parse_hdr_log(file.text);
    if (!log) return Error{"'" + file.name + "': " + log.error()};
    for (HdrInterval& interval : *log) {
      const auto same = [&interval](const HdrInterval& one) { return one.tag == interval.tag; };
      const auto found = std::find_if(merged.begin(), merged.end(), same);
      if (found == merged.end()) {
        merged.push_back(std::move(interval));
        continue;
      }
      found->histogram.merge(interval.histogram);
      found->length_s = std::max(found->length_s, interval.start_s + interval.length_s -
                                                      found->start_s);
    }
  }
  return merged;
}

std::vector<Json> runs_of(const Json& report) {
  std::vector<Json> runs;
  if (!report.contains("runs")) return {report};
  for (const Json& run : report["runs"]) runs.push_back(run);
  return runs;
}

}  // namespace rubato::cli
