// SPDX-License-Identifier: Apache-2.0
#include "cli/report/report_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "cli/report/merged_run.h"

namespace rubato::cli {
namespace {

using Json = nlohmann::ordered_json;

bool is_run(const Json& json) {
  return json.is_object() && json.value("schema", Json()) == "rubato.run/1" &&
         json.contains("types") && json["types"].is_array();
}

Result<std::vector<Json>> runs_in(const NamedText& file) {
  const Json json = Json::parse(file.text, nullptr, false);
  const Error no_report{"'" + file.name + "' is no rubato.run/1, sweep/1 or compare/1"};
  if (is_run(json)) return std::vector<Json>{json};
  if (!json.is_object() || !json.contains("runs") || !json["runs"].is_array()) return no_report;
  const Json& runs = json["runs"];
  if (runs.empty() || !std::all_of(runs.begin(), runs.end(), is_run)) return no_report;
  return std::vector<Json>(runs.begin(), runs.end());
}

}  // namespace

Result<Json> merge_reports(const std::vector<NamedText>& files) {
  std::vector<std::vector<Json>> all;  // of each file
  for (const NamedText& file : files) {
    Result<std::vector<Json>> runs = runs_in(file);
    if (!runs) return Error{runs.error()};
    all.push_back(std::move(*runs));
    if (all.back().size() == all.front().size()) continue;
    return Error{fmt::format("'{}' has {} runs, '{}' has {}", file.name, all.back().size(),
                             files.front().name, all.front().size())};
  }
  Json merged = Json::array();
  for (size_t i = 0; i < all.front().size(); ++i) {
    std::vector<NamedRun> same;
    for (size_t f = 0; f < files.size(); ++f) same.push_back({&all[f][i], files[f].name});
    Result<Json> run = merge_runs(same);
    if (!run) return Error{run.error()};
    merged.push_back(std::move(*run));
  }
  if (merged.size() == 1) return merged.front();
  return Json{{"schema", "rubato.sweep/1"}, {"runs", std::move(merged)}};
}

Result<std::vector<HdrInterval>> merge_logs(const std::vector<NamedText>& files) {
  std::vector<HdrInterval> merged;
  for (const NamedText& file : files) {
    for (const NamedText& other : std::span(files.data(), &file)) {
      if (other.text != file.text) continue;
      return Error{"'" + other.name + "' and '" + file.name + "' are the same log"};
    }
    Result<std::vector<HdrInterval>> log = parse_hdr_log(file.text);
    if (!log) return Error{"'" + file.name + "': " + log.error()};
    if (log->empty()) return Error{"'" + file.name + "' has no report and no histogram"};
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
