// SPDX-License-Identifier: Apache-2.0
#include "planning/slo.h"

#include <gtest/gtest.h>

namespace rubato::planning {
namespace {

Slo slo_of(const std::string& text) {
  Slo slo;
  const Status parsed = parse_slo(text, slo);
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error());
  return slo;
}

std::string error_of(const std::string& text) {
  Slo slo;
  const Status parsed = parse_slo(text, slo);
  return parsed.ok() ? "" : parsed.error();
}

// 1000 gets and 10 scans, none refused.
sim::SimReport report() {
  sim::SimReport report;
  RunReport& run = report.run;
  run.requests = 1010;
  run.latency = {20, 10, 30, 200, 400, 500};
  run.slowdown = SlowdownSummary{2, 1, 3, 20, 40};
  run.types.resize(2);
  run.types[0].name = "get";
  run.types[0].count = 1000;
  run.types[0].latency = {15, 9, 25, 100, 150, 160};
  run.types[0].slowdown = SlowdownSummary{1.5, 1, 2, 10, 15};
  run.types[1].name = "scan";
  run.types[1].count = 10;
  run.types[1].latency = {300, 300, 400, 400, 500, 500};
  run.types[1].slowdown = SlowdownSummary{1.1, 1, 1.2, 1.3, 1.4};
  return report;
}

TEST(Slo, takes_latencies_slowdowns_types_and_refusals) {
  const Slo slo = slo_of("p999_slowdown=50,get:p99_latency=300us,mean_latency=12,refused=0.01");
  ASSERT_EQ(slo.targets.size(), 3u);
  EXPECT_EQ(slo.targets[0].kind, FigureKind::kSlowdown);
  EXPECT_EQ(slo.targets[0].statistic, Statistic::kP999);
  EXPECT_EQ(slo.targets[1].type, "get");
  EXPECT_EQ(slo.targets[1].limit, 300);
  EXPECT_EQ(slo.targets[2].limit, 12) << "bare times are microseconds, as everywhere";
  EXPECT_EQ(slo_text(slo), "p999_slowdown <= 50, get:p99_latency <= 300us, mean_latency <= 12us, "
                           "refused <= 0.01");
}

TEST(Slo, may_be_given_in_several_pieces) {
  Slo slo;
  EXPECT_FALSE(slo.given());
  ASSERT_TRUE(parse_slo("p50_latency=1ms", slo).ok());
  ASSERT_TRUE(parse_slo("p90_latency=2ms", slo).ok());
  EXPECT_EQ(slo.targets.size(), 2u);
  EXPECT_TRUE(slo.given());
  EXPECT_EQ(error_of("p50_latency=1ms,p50_latency=2ms"), "names p50_latency twice");
  EXPECT_EQ(error_of("refused=0,refused=0"), "names refused twice");
}

TEST(Slo, each_mistake_has_its_own_line) {
  EXPECT_NE(error_of("p95_latency=3us").find("no metric 'p95_latency'; there is mean, p50, p90"),
            std::string::npos);
  EXPECT_NE(error_of("p99=3us").find("no metric 'p99'"), std::string::npos);
  EXPECT_NE(error_of(":p99_latency=3us").find("no metric"), std::string::npos);
  EXPECT_NE(error_of("get:refused=0.1").find("no metric 'get:refused'"), std::string::npos);
  EXPECT_NE(error_of("p99_latency").find("METRIC=LIMIT"), std::string::npos);
  EXPECT_NE(error_of("").find("METRIC=LIMIT"), std::string::npos);
  EXPECT_NE(error_of("p99_latency=50,,").find("METRIC=LIMIT"), std::string::npos);
  EXPECT_NE(error_of("p99_latency=fast").find("takes a time such as 300us"), std::string::npos);
  EXPECT_NE(error_of("p99_latency=0").find("takes a time"), std::string::npos);
  EXPECT_NE(error_of("p99_slowdown=5us").find("takes a number of 1 or more"), std::string::npos);
  EXPECT_NE(error_of("p99_slowdown=0.5").find("takes a number of 1 or more"), std::string::npos);
  EXPECT_NE(error_of("refused=2").find("takes a share"), std::string::npos);
}

TEST(Slo, names_the_types_that_there_are) {
  const Slo slo = slo_of("set:p99_latency=1ms");
  const Status fits = check_types(slo, {"get", "scan"});
  ASSERT_FALSE(fits.ok());
  EXPECT_EQ(fits.error(), "the workload has no type 'set'; it has get, scan");
  EXPECT_TRUE(check_types(slo, {"set"}).ok());
}

TEST(Slo, is_met_up_to_the_limit_and_missed_beyond) {
  EXPECT_EQ(judge(slo_of("p99_latency=200us"), report()).verdict, SloVerdict::kMet);
  EXPECT_EQ(judge(slo_of("p99_latency=199us"), report()).verdict, SloVerdict::kMissed);
  EXPECT_EQ(judge(slo_of("p90_slowdown=3"), report()).verdict, SloVerdict::kMet);
  EXPECT_EQ(judge(slo_of("p90_slowdown=2.9"), report()).verdict, SloVerdict::kMissed);
  EXPECT_EQ(judge(slo_of("mean_latency=20us,p999_latency=1us"), report()).verdict,
            SloVerdict::kMissed);
}

TEST(Slo, of_a_type_looks_at_that_type_alone) {
  const SloResult result = judge(slo_of("get:p999_slowdown=16,scan:p50_latency=299us"), report());
  EXPECT_EQ(result.figures[0].figure, 15);
  EXPECT_EQ(result.figures[0].verdict, SloVerdict::kMet);
  EXPECT_EQ(result.figures[1].figure, 300);
  EXPECT_EQ(result.figures[1].verdict, SloVerdict::kMissed);
  EXPECT_EQ(result.verdict, SloVerdict::kMissed);
}

TEST(Slo, is_missed_by_a_type_that_was_not_seen) {
  sim::SimReport none = report();
  none.run.types[1].count = 0;
  const SloResult result = judge(slo_of("scan:p99_latency=1s"), none);
  EXPECT_EQ(result.verdict, SloVerdict::kMissed);
  EXPECT_EQ(result.figures[0].count, 0u);
}

TEST(Slo, lost_and_refused_requests_are_misses_unless_a_share_is_allowed) {
  sim::SimReport some = report();
  some.run.refused = 1;
  some.run.lost = 1;
  EXPECT_EQ(judge(slo_of("p50_latency=1s"), some).verdict, SloVerdict::kMissed);
  EXPECT_EQ(judge(slo_of("p50_latency=1s,refused=0.001"), some).verdict, SloVerdict::kMissed);
  EXPECT_EQ(judge(slo_of("p50_latency=1s,refused=0.002"), some).verdict, SloVerdict::kMet);
  EXPECT_GT(judge(slo_of("p50_latency=1s"), some).worst_ratio,
            judge(slo_of("p999_latency=1us"), report()).worst_ratio);
}

TEST(Slo, is_unsure_while_the_limit_lies_within_the_interval_of_several_seeds) {
  sim::SimReport seeds = report();
  seeds.seeds = 3;
  seeds.confidence = {{"/types/0/latency_us/p99", 20}};
  EXPECT_EQ(judge(slo_of("get:p99_latency=120us"), seeds).verdict, SloVerdict::kMet);
  EXPECT_EQ(judge(slo_of("get:p99_latency=110us"), seeds).verdict, SloVerdict::kUnsure);
  EXPECT_EQ(judge(slo_of("get:p99_latency=90us"), seeds).verdict, SloVerdict::kUnsure);
  EXPECT_EQ(judge(slo_of("get:p99_latency=79us"), seeds).verdict, SloVerdict::kMissed);
  EXPECT_DOUBLE_EQ(judge(slo_of("get:p99_latency=240us"), seeds).worst_ratio, 0.5);
}

TEST(Slo, the_share_that_failed_has_the_interval_of_the_lost_and_of_the_refused) {
  sim::SimReport some = report();
  some.run.refused = 101;  // a tenth
  some.confidence = {{"/simulation/lost_share", 0.01}, {"/simulation/refused_share", 0.02}};
  EXPECT_EQ(judge(slo_of("refused=0.14"), some).verdict, SloVerdict::kMet);
  EXPECT_EQ(judge(slo_of("refused=0.12"), some).verdict, SloVerdict::kUnsure);
  EXPECT_EQ(judge(slo_of("refused=0.08"), some).verdict, SloVerdict::kUnsure);
  EXPECT_EQ(judge(slo_of("refused=0.06"), some).verdict, SloVerdict::kMissed);
  EXPECT_EQ(judge(slo_of("p50_latency=1s"), some).verdict, SloVerdict::kMissed) << "none may";
  const SloResult unsure = judge(slo_of("refused=0.12"), some);
  EXPECT_GT(unsure.worst_ratio, kRefusedRatio);
  EXPECT_NEAR(unsure.figure_ratio, 0.1 / 0.12, 1e-9);
  EXPECT_NEAR(unsure.least_ratio, 0.07 / 0.12, 1e-9);
}

TEST(Slo, warns_of_percentiles_that_rest_on_few_requests) {
  EXPECT_EQ(thin_evidence(slo_of("get:p99_latency=1ms,mean_latency=1us"), report(), 1000), "");
  // One of the 1000 gets lies beyond its p99.9.
  EXPECT_EQ(thin_evidence(slo_of("get:p999_latency=1ms,p99_latency=1ms"), report(), 1200),
            "get:p999_latency of a run has 1.0 requests beyond it, which is few; --requests 12000 "
            "has ten");
  sim::SimReport two = report();
  two.seeds = 2;
  EXPECT_NE(thin_evidence(slo_of("get:p99_latency=1ms"), two, 1000), "") << "five in each run";
}

}  // namespace
}  // namespace rubato::planning
