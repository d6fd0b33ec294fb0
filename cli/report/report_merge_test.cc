// SPDX-License-Identifier: Apache-2.0
#include "cli/report/report_merge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/report/merge_table.h"
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
  EXPECT_EQ(error_of(text_of(other)), "'other' has another 'policy' than 'good'");
  other = run_of(2, {1000});
  other.types[1].name = "some";
  EXPECT_EQ(error_of(text_of(other)), "'other' has another list of types than 'good'");
  Json without = Json::parse(text_of(run_of(2, {1000})));
  without["types"][0].erase("latency_histogram_ns");
  const std::string no_histograms =
      "has no whole histograms, as `rubato sim --json` writes them";
  EXPECT_EQ(error_of(without.dump()), "'other' " + no_histograms);
  // The one that lacks them is named, whatever its place.
  EXPECT_EQ(merge_reports({{"without", without.dump()}, good}).error(),
            "'without' " + no_histograms);
}

TEST(ReportMerge, a_seed_is_not_taken_twice) {
  const NamedText one{"one", text_of(run_of(1, {1000}))}, two{"two", text_of(run_of(2, {2000}))};
  EXPECT_EQ(merge_reports({one, two, one}).error(), "'one' and 'one' both have seed 1");
  const NamedText both{"both", merge_reports({one, two}).value().dump()};
  EXPECT_EQ(merge_reports({both, two}).error(), "'both' and 'two' both have seed 2");
  Json several = Json::parse(text_of(run_of(4, {1000})));
  several["simulation"] = {{"seeds", 3}};  // 4 to 6
  const NamedText six{"six", text_of(run_of(6, {3000}))}, seven{"seven", text_of(run_of(7, {9}))};
  EXPECT_EQ(merge_reports({six, {"several", several.dump()}}).error(),
            "'six' and 'several' both have seed 6");
  EXPECT_TRUE(merge_reports({seven, {"several", several.dump()}}).ok());
  Json unknown = Json::parse(both.text);
  unknown.erase("parts");
  EXPECT_EQ(merge_reports({{"unknown", unknown.dump()}, seven}).error(),
            "'unknown' was merged without a list of its seeds: merge its parts again");
}

TEST(ReportMerge, a_live_run_is_not_taken_twice_but_its_seed_may_be) {
  RunReport first = run_of(1, {1000}), second = run_of(1, {2000});
  first.kind = second.kind = "live";
  const NamedText a{"a", text_of(first)}, b{"b", text_of(second)};
  EXPECT_TRUE(merge_reports({a, b}).ok());
  EXPECT_EQ(merge_reports({a, b, {"copy", a.text}}).error(), "'a' and 'copy' are the same run");
}

TEST(ReportMerge, the_verdict_is_the_worst_and_a_part_that_is_not_valid_says_so) {
  const auto run = [](uint64_t seed, const char* verdict, const char* reason) {
    RunReport said = run_of(seed, {1000});
    said.valid = std::string(verdict) != "overloaded";
    if (!said.valid) said.invalid_reason = verdict;
    Json json = Json::parse(text_of(said));
    json["verdict"] = verdict;
    json["verdict_reasons"] = Json::array({reason});
    return json.dump();
  };
  const NamedText good{"a", run(1, "steady", "")}, hasty{"b", run(2, "not steady", "too few")},
      bad{"c", run(3, "overloaded", "1.2 of the capacity is offered")};
  Json merged = merge_reports({good, hasty}).value();
  EXPECT_EQ(merged["verdict"], "not steady");
  EXPECT_TRUE(merged["valid"].get<bool>());
  EXPECT_NE(merged_table(merged).find("\nnot steady: too few\n"), std::string::npos);
  merged = merge_reports({{"ab", merged.dump()}, bad}).value();
  EXPECT_EQ(merged["verdict"], "overloaded");
  EXPECT_EQ(merged["merged"], 3);
  EXPECT_NE(merged_table(merged).find("\noverloaded: 1.2 of the capacity is offered\n"
                                      "INVALID run: overloaded\n"),
            std::string::npos);
}

TEST(ReportMerge, intervals_are_those_between_the_reports) {
  const auto run = [](uint64_t seed, int64_t ns) {
    return NamedText{std::to_string(seed), text_of(run_of(seed, std::vector<int64_t>(200, ns)))};
  };
  const Json merged = merge_reports({run(1, 10'000), run(2, 12'000), run(3, 14'000)}).value();
  const Json& confidence = merged["confidence"];
  // Student's t of two degrees, times 2 us over the root of 3.
  EXPECT_NEAR(confidence["latency_us"]["mean"].get<double>(), 4.3027 * 2 / std::sqrt(3), 1e-3);
  EXPECT_NEAR(confidence["types"][0]["latency_us"]["mean"].get<double>(), 4.968, 1e-3);
  EXPECT_NEAR(confidence["achieved_rps"].get<double>(), 0, 1e-9);
  // The merged figure, of the slowest report, is 2 us from the mean over reports.
  EXPECT_NEAR(confidence["latency_us"]["p99"].get<double>(), 4.968 + 2, 0.2);
  // 200 requests have none beyond p99.9.
  EXPECT_TRUE(confidence["latency_us"]["p999"].is_null());
  EXPECT_NE(merged_table(merged).find("12.00us+-4.97us"), std::string::npos);
  EXPECT_NE(merged_table(merged).find("+-?"), std::string::npos);
  // In two steps it is the same.
  const Json two = merge_reports({run(1, 10'000), run(2, 12'000)}).value();
  EXPECT_EQ(merge_reports({{"two", two.dump()}, run(3, 14'000)}).value()["confidence"], confidence);
  EXPECT_TRUE(merge_reports({run(1, 10'000)}).value()["confidence"]["achieved_rps"].is_null());
}

TEST(ReportMerge, a_table_names_its_load_and_its_seeds) {
  Json several = Json::parse(text_of(run_of(4, {1000})));
  several["simulation"] = {{"seeds", 3}};
  const Json merged =
      merge_reports({{"a", text_of(run_of(1, {1000}))}, {"b", several.dump()}}).value();
  EXPECT_EQ(merged_table(merged).find("ps  load 0.5  2 requests of 2 reports, seeds 1, 4 to 6\n"),
            0u);
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
  const std::string log = hdr_log({{"get", 0, 5, few}});
  EXPECT_EQ(merge_logs({{"a", log}, {"b", log}}).error(), "'a' and 'b' are the same log");
  EXPECT_EQ(merge_logs({{"a", log}, {"none", ""}}).error(),
            "'none' has no report and no histogram");
}

}  // namespace
}  // namespace rubato::cli
