// SPDX-License-Identifier: Apache-2.0
#include "cli/report/report_merge.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "metrics/histogram_json.h"
#include "metrics/run_report.h"

namespace rubato::cli {
namespace {

using Json = nlohmann::ordered_json;

// A run that measured `latencies` of one type, and nothing of another.
RunReport run_of(uint64_t seed, const std::vector<int64_t>& latencies) {
  RunReport run;
  run.kind = "sim";
  run.policy = "ps";
  run.seed = seed;
  run.load = 0.5;
  run.requests = latencies.size();
  run.offered_rps = static_cast<double>(10 * seed);
  TypeReport type;
  type.name = "get";
  for (const int64_t ns : latencies) type.histograms.latency.record(Nanos(ns));
  type.count = latencies.size();
  run.types.push_back(type);
  type = TypeReport();
  type.name = "none";
  run.types.push_back(type);
  return run;
}

std::string text_of(const RunReport& run) { return to_json(run); }

TEST(ReportMerge, shards_become_what_one_run_would_have_said) {
  const std::vector<NamedText> files = {{"a", text_of(run_of(1, {1000, 2000, 3000}))},
                                        {"b", text_of(run_of(2, {4000, 900'000}))}};
  const Json merged = merge_reports(files).value();
  const RunReport whole = run_of(3, {1000, 2000, 3000, 4000, 900'000});
  const Json& type = merged["types"][0];
  EXPECT_EQ(merged["merged"], 2);
  EXPECT_EQ(merged["requests"], 5);
  EXPECT_EQ(type["count"], 5);
  EXPECT_EQ(type["latency_histogram_ns"], histogram_json(whole.types[0].histograms.latency));
  EXPECT_EQ(merged["latency_us"]["max"], 900);
  EXPECT_EQ(merged["latency_us"]["p9999"], 900);
  EXPECT_NEAR(type["latency_us"]["p50"].get<double>(), 3, 0.03);
  EXPECT_EQ(merged["offered_rps"], 15);
  EXPECT_EQ(merged["types"][1]["count"], 0);
}

TEST(ReportMerge, sweeps_are_merged_run_by_run) {
  const auto sweep = [](uint64_t seed) {
    Json runs = Json::array();
    for (const int64_t ns : {1000, 5000}) runs.push_back(Json::parse(text_of(run_of(seed, {ns}))));
    return Json{{"schema", "rubato.sweep/1"}, {"runs", runs}}.dump();
  };
  const Json merged = merge_reports({{"a", sweep(1)}, {"b", sweep(2)}, {"c", sweep(3)}}).value();
  const auto runs = runs_of(merged);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1]["types"][0]["count"], 3);
  EXPECT_EQ(runs[1]["latency_us"]["max"], 5);
}

TEST(ReportMerge, what_does_not_go_together_is_refused_by_name) {
  const NamedText good{"good", text_of(run_of(1, {1000}))};
  const auto error_of = [&good](const std::string& other) {
    auto merged = merge_reports({good, {"other", other}});
    return merged.ok() ? std::string() : merged.error();
  };
  EXPECT_EQ(error_of("{}"), "'other' is no rubato.run/1, sweep/1 or compare/1");
  EXPECT_EQ(error_of("no json"), "'other' is no rubato.run/1, sweep/1 or compare/1");
  RunReport other = run_of(2, {1000});
  other.policy = "fcfs";
  EXPECT_EQ(error_of(text_of(other)), "'other' has another 'policy'");
  other = run_of(2, {1000});
  other.types[1].name = "some";
  EXPECT_EQ(error_of(text_of(other)), "'other' has other types");
  Json without = Json::parse(text_of(run_of(2, {1000})));
  without["types"][0].erase("latency_histogram_ns");
  EXPECT_NE(error_of(without.dump()).find("no whole histograms"), std::string::npos);
}

TEST(ReportMerge, logs_are_merged_by_tag) {
  Histogram few, more;
  few.record(Nanos(1000));
  more.record(Nanos(2000));
  more.record(Nanos(3000));
  const auto merged = merge_logs({{"a", hdr_log({{"get", 0, 5, few}, {"scan", 0, 5, few}})},
                                  {"b", hdr_log({{"get", 5, 5, more}})}}).value();
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[0].histogram.count(), 3u);
  EXPECT_EQ(merged[0].length_s, 10);
  EXPECT_EQ(merge_logs({{"a", "junk"}}).error().find("'a': hdr: line 1"), 0u);
}

}  // namespace
}  // namespace rubato::cli
