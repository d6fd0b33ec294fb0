// SPDX-License-Identifier: Apache-2.0
#include "cli/load/combine_reports.h"

#include <gtest/gtest.h>

namespace rubato::cli {
namespace {

RunReport part_of(std::initializer_list<int64_t> latencies_ns, double rate) {
  RunReport report;
  report.loop = "open";
  TypeReport type;
  type.name = "get";
  type.share = 1;
  for (const int64_t ns : latencies_ns) type.histograms.latency.record(Nanos(ns));
  type.count = latencies_ns.size();
  report.types.push_back(type);
  report.requests = latencies_ns.size();
  report.offered_rps = report.achieved_rps = rate;
  report.send_lag = SendLag{.p99_us = rate, .max_us = 2 * rate, .unsent = 1};
  report.noise = NoiseReport{};
  return report;
}

TEST(CombineReports, parts_become_what_one_generator_would_have_measured) {
  const RunReport whole = part_of({1000, 2000, 3000, 4000, 900'000}, 0);
  const RunReport both =
      combine_reports({{"process 1", to_json(part_of({1000, 2000, 3000}, 10))},
                       {"process 2", to_json(part_of({4000, 900'000}, 30))}})
          .value();
  const LatencySummary expected = summarize_latency(whole.types[0].histograms.latency);
  EXPECT_EQ(both.types.at(0).count, 5u);
  EXPECT_EQ(both.latency.p50_us, expected.p50_us);
  EXPECT_EQ(both.latency.p999_us, expected.p999_us);
  EXPECT_EQ(both.latency.mean_us, expected.mean_us);
  EXPECT_EQ(both.types.at(0).latency.max_us, expected.max_us);
  EXPECT_EQ(both.requests, 5u);
  EXPECT_EQ(both.offered_rps, 40);
  EXPECT_EQ(both.send_lag->p99_us, 30);
  EXPECT_EQ(both.send_lag->unsent, 2u);
  EXPECT_TRUE(both.valid);
}

TEST(CombineReports, what_no_stall_touched_is_counted_over_all_parts) {
  const auto part = [](std::initializer_list<int64_t> undisturbed_ns, uint64_t stalls) {
    RunReport report = part_of({1000, 2000, 900'000}, 10);
    report.undisturbed.emplace();
    report.undisturbed->stalls = stalls;
    report.undisturbed->floor_us = 50;
    report.undisturbed->types.push_back({.name = "get", .latency = {}});
    for (const int64_t ns : undisturbed_ns) {
      report.undisturbed->types[0].histogram.record(Nanos(ns));
    }
    return to_json(report);
  };
  const RunReport both =
      combine_reports({{"process 1", part({1000, 2000}, 3)}, {"process 2", part({1000}, 4)}})
          .value();
  ASSERT_TRUE(both.undisturbed);
  EXPECT_EQ(both.undisturbed->stalls, 7u);
  EXPECT_EQ(both.undisturbed->floor_us, 50);
  EXPECT_EQ(both.undisturbed->types.at(0).count, 3u);
  EXPECT_EQ(both.undisturbed->types.at(0).share, 0.5);
  EXPECT_EQ(both.undisturbed->share, 0.5);
  EXPECT_EQ(both.undisturbed->latency.max_us, 2);
}

TEST(CombineReports, one_invalid_part_makes_all_invalid_and_is_named) {
  RunReport bad = part_of({1000}, 10);
  bad.valid = false;
  bad.invalid_reason = "the generator fell behind";
  const RunReport both = combine_reports({{"agent a:1", to_json(part_of({1000}, 10))},
                                          {"agent b:1", to_json(bad)}})
                             .value();
  EXPECT_FALSE(both.valid);
  EXPECT_EQ(both.invalid_reason, "agent b:1: the generator fell behind");
}

TEST(CombineReports, what_does_not_fit_is_one_line_that_names_the_part) {
  RunReport other = part_of({1000}, 10);
  other.types[0].name = "set";
  const std::string good = to_json(part_of({1000}, 10));
  const auto error = [&good](const std::string& bad) {
    const Result<RunReport> all = combine_reports({{"process 1", good}, {"process 2", bad}});
    return all.ok() ? std::string() : all.error();
  };
  EXPECT_EQ(error(to_json(other)), "the report of process 2 has other types");
  EXPECT_EQ(error("{}"), "the report of process 2 is no rubato.run/1");
  for (const char* text : {"x", "{\"schema\": \"rubato.run/1\"}"}) {
    EXPECT_TRUE(error(text).starts_with("the report of process 2 is none of this version"));
  }
}

}  // namespace
}  // namespace rubato::cli
