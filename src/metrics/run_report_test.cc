// SPDX-License-Identifier: Apache-2.0
#include "metrics/run_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rubato {
namespace {

using Json = nlohmann::json;

RunReport small_report() {
  RunReport r;
  r.policy = "synergy";
  r.workers = 2;
  r.workload = "get:0.99,range:0.01";
  r.offered_rps = 1000;
  r.types.push_back({.name = "get",
                     .service_us = {},
                     .share = 0.99,
                     .count = 5,
                     .latency = {},
                     .slowdown = {},
                     .histograms = {},
                     .ccdf = {}});
  return r;
}

TEST(RunReport, writes_every_key_of_the_contract) {
  const Json json = Json::parse(to_json(small_report()));
  for (const char* key :
       {"schema",      "kind",         "policy",   "workers",  "workload", "seed",
        "offered_rps", "achieved_rps", "load",     "requests", "refused",  "lost",
        "valid",       "latency_us",   "slowdown", "types",    "counters", "utilization",
        "wall_s",      "cost_model",   "machine",  "version"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["schema"], "rubato.run/1");
  for (const char* key : {"mean", "p50", "p90", "p99", "p999", "max"}) {
    EXPECT_TRUE(json["latency_us"].contains(key)) << key;
  }
  for (const char* key : {"name", "service_us", "share", "count", "latency_us", "slowdown"}) {
    EXPECT_TRUE(json["types"][0].contains(key)) << key;
  }
}

TEST(RunReport, unknown_figures_are_null_and_live_parts_are_left_out) {
  const Json json = Json::parse(to_json(small_report()));
  EXPECT_TRUE(json["counters"].is_null());
  EXPECT_TRUE(json["load"].is_null());
  EXPECT_TRUE(json["types"][0]["slowdown"].is_null());
  EXPECT_FALSE(json.contains("noise"));
  EXPECT_FALSE(json.contains("invalid_reason"));
}

TEST(RunReport, counters_and_live_parts_are_written_when_known) {
  RunReport r = small_report();
  r.counters = SchedulerCounters{};
  r.counters->preemptions = 7;
  r.counters->more = {{"hints", 3}};
  r.noise = NoiseReport{};
  r.noise->stalled_ms = 2.5;
  r.send_lag = SendLag{};
  r.undisturbed = UndisturbedReport{};
  r.undisturbed->share = 0.75;
  r.undisturbed->types.push_back({.name = "get", .count = 3, .share = 0.6, .latency = {}});
  r.timeline.push_back({.start_s = 0.1, .types = {{.count = 4, .p50_us = 9}}});
  r.settings = {{"flows", "16"}};
  const Json json = Json::parse(to_json(r));
  EXPECT_EQ(json["counters"]["preemptions"], 7);
  EXPECT_EQ(json["counters"]["hints"], 3);
  EXPECT_EQ(json["timeline"]["slices"][0]["latency_us"]["get"]["p50"], 9.0);
  EXPECT_TRUE(json["noise"]["steal_percent"].is_null());
  EXPECT_EQ(json["noise"]["stalled_ms"], 2.5);
  EXPECT_EQ(json["undisturbed"]["share"], 0.75);
  EXPECT_EQ(json["undisturbed"]["types"][0]["count"], 3);
  EXPECT_TRUE(json["undisturbed"]["rule"].contains("floor_us"));
  EXPECT_EQ(json["settings"]["flows"], "16");
}

TEST(RunReport, names_that_are_not_utf8_do_not_break_the_output) {
  RunReport r = small_report();
  r.policy = "bad\xff";
  const Json parsed = Json::parse(to_json(r), nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(parsed.is_object());
}

TEST(RunReport, summaries_are_in_microseconds) {
  Histogram h;
  for (int i = 1; i <= 1000; ++i) h.record(Nanos::micros(i));
  const LatencySummary l = summarize_latency(h);
  EXPECT_NEAR(l.p50_us, 500, 4);
  EXPECT_NEAR(l.p99_us, 990, 8);
  EXPECT_DOUBLE_EQ(l.max_us, 1000);
}

TEST(RunReport, slowdown_is_latency_over_service) {
  Histogram h;
  record_slowdown(h, Nanos::micros(15), Nanos::micros(10));
  EXPECT_DOUBLE_EQ(summarize_slowdown(h).mean, 1.5);
}

TEST(RunReport, slowdowns_have_the_percentiles_that_latencies_have) {
  Histogram h;
  for (int i = 1; i <= 1000; ++i) record_slowdown(h, Nanos::micros(i), Nanos::micros(1));
  const SlowdownSummary s = summarize_slowdown(h);
  EXPECT_NEAR(s.p50, 500, 4);
  EXPECT_NEAR(s.p90, 900, 8);
  EXPECT_NEAR(s.p99, 990, 8);
  EXPECT_NEAR(s.p999, 999, 8);
  RunReport r = small_report();
  r.slowdown = s;
  EXPECT_EQ(Json::parse(to_json(r))["slowdown"]["p90"], s.p90);
}

TEST(RunReport, ccdf_falls_to_zero) {
  Histogram h;
  for (int i = 1; i <= 100; ++i) h.record(Nanos::micros(i));
  const auto points = ccdf_of(h);
  ASSERT_FALSE(points.empty());
  EXPECT_DOUBLE_EQ(points.back().second, 0.0);
  for (size_t i = 1; i < points.size(); ++i) EXPECT_LT(points[i].second, points[i - 1].second);
}

}  // namespace
}  // namespace rubato
