// SPDX-License-Identifier: Apache-2.0
#include "load/recorder.h"

#include <gtest/gtest.h>

namespace rubato::load {
namespace {

LoadOptions ten_seconds() {
  LoadOptions options;
  options.duration = Nanos::seconds(10);
  return options;
}

const std::vector<SourceType> kOneType = {{"get", 1.0, Nanos::micros(10)}};

// `count` requests, each sent `lag` late and answered after 20 us.
void fill(Recorder& recorder, int count, Nanos lag = Nanos(0)) {
  for (int i = 0; i < count; ++i) {
    recorder.sent(0, lag);
    recorder.replied(0, Nanos::seconds(5), Nanos::micros(20), Nanos::micros(10), true);
  }
}

TEST(Recorder, a_run_that_went_well_is_valid) {
  Recorder recorder(ten_seconds(), kOneType);
  fill(recorder, 9000);
  const RunReport report = recorder.report(Nanos::seconds(10));
  EXPECT_TRUE(report.valid) << report.invalid_reason;
  EXPECT_EQ(report.requests, 9000u);
  EXPECT_DOUBLE_EQ(report.offered_rps, 1000);
  EXPECT_DOUBLE_EQ(report.achieved_rps, 1000);
  EXPECT_NEAR(report.slowdown->mean, 2.0, 0.01);
  EXPECT_EQ(report.types[0].service_us, 10.0);
}

TEST(Recorder, the_first_tenth_is_warm_up) {
  Recorder recorder(ten_seconds(), kOneType);
  EXPECT_FALSE(recorder.measured(Nanos::millis(999)));
  EXPECT_TRUE(recorder.measured(Nanos::millis(1000)));
  recorder.replied(0, Nanos::millis(500), Nanos::seconds(1), Nanos(0), false);
  EXPECT_EQ(recorder.report(Nanos::seconds(10)).types[0].count, 0u);
}

TEST(Recorder, what_no_stall_touched_stands_beside_the_whole) {
  Recorder recorder(ten_seconds(), kOneType);
  for (int64_t ms = 2000; ms < 3000; ++ms) {
    recorder.sent(0, Nanos(0));
    const bool late = ms >= 2500 && ms < 2520;
    const Nanos latency = late ? Nanos::millis(2520 - ms) : Nanos::micros(20);
    recorder.replied(0, Nanos::millis(ms) + latency, latency, Nanos(0), true);
  }
  recorder.stalled({Nanos::millis(2500), Nanos::millis(2520), Nanos::millis(20)});
  recorder.settle(Nanos::max());
  const RunReport report = recorder.report(Nanos::seconds(10));
  EXPECT_GT(report.types[0].latency.p999_us, 15e3);
  EXPECT_NEAR(report.undisturbed->types[0].latency.p999_us, 20, 0.5);
  // Due from 2490 to 2620 ms.
  EXPECT_EQ(report.undisturbed->types[0].count, 1000u - 131u);
  EXPECT_DOUBLE_EQ(report.undisturbed->share, 0.869);
  EXPECT_EQ(report.undisturbed->stalls, 1u);
}

TEST(Recorder, a_late_generator_makes_the_run_invalid) {
  Recorder recorder(ten_seconds(), kOneType);
  fill(recorder, 900);
  fill(recorder, 100, Nanos::millis(2));
  const RunReport report = recorder.report(Nanos::seconds(10));
  EXPECT_FALSE(report.valid);
  EXPECT_NE(report.invalid_reason.find("schedule"), std::string::npos);
  EXPECT_NEAR(report.send_lag->p99_us, 2000, 20);
}

TEST(Recorder, one_lost_in_a_thousand_is_allowed_and_two_are_not) {
  for (int lost : {1, 2}) {
    Recorder recorder(ten_seconds(), kOneType);
    fill(recorder, 1000 - lost);
    for (int i = 0; i < lost; ++i) recorder.sent(0, Nanos(0)), recorder.lost(0, false, true);
    const RunReport report = recorder.report(Nanos::seconds(10));
    EXPECT_EQ(report.valid, lost == 1);
    EXPECT_EQ(report.lost, static_cast<uint64_t>(lost));
    EXPECT_EQ(report.timeouts, 0u);
  }
}

TEST(Recorder, the_server_fails_a_run_by_errors_by_silence_and_by_serving_nothing) {
  for (const Outcome outcome : {Outcome::kError, Outcome::kRefused}) {
    Recorder recorder(ten_seconds(), kOneType);
    EXPECT_EQ(recorder.failure(), "");  // nothing was asked of it
    recorder.sent(0, Nanos(0));
    recorder.failed(0, outcome, "ERR no such command", true);
    EXPECT_EQ(recorder.failure(), recorder.report(Nanos::seconds(10)).invalid_reason);
    EXPECT_NE(recorder.failure().find(outcome == Outcome::kError ? "ERR no such command"
                                                                 : "none was served: 1 refused"),
              std::string::npos) << recorder.failure();
  }
  Recorder recorder(ten_seconds(), kOneType);
  fill(recorder, 100, Nanos::seconds(1));
  recorder.sent(0, Nanos(0));
  recorder.lost(0, true, true);
  EXPECT_EQ(recorder.failure(), "0.99 % of the requests got no reply");
}

TEST(Recorder, figures_that_are_not_to_be_trusted_are_no_failure_of_the_server) {
  Recorder late(ten_seconds(), kOneType), unsent(ten_seconds(), kOneType);
  Recorder interrupted(ten_seconds(), kOneType);
  fill(late, 1000, Nanos::millis(2));
  fill(unsent, 990);
  unsent.unsent(10);
  interrupted.interrupted();
  for (const Recorder* recorder : {&late, &unsent, &interrupted}) {
    EXPECT_FALSE(recorder->report(Nanos::seconds(10)).valid);
    EXPECT_EQ(recorder->failure(), "");
  }
}

TEST(Recorder, what_a_slow_server_had_begun_at_the_end_is_not_lost_and_what_a_silent_one_had_is) {
  for (const bool silent : {false, true}) {
    Recorder recorder(ten_seconds(), kOneType);
    fill(recorder, 90);
    recorder.sent(0, Nanos(0));
    const Nanos last = silent ? Nanos::seconds(6) : Nanos::seconds(14);
    recorder.replied(0, last, Nanos::seconds(5), Nanos(0), true);
    recorder.sent(0, Nanos(0));
    recorder.lost(0, true, true);
    recorder.unsent(8);
    EXPECT_EQ(recorder.failure(), silent ? "1.00 % of the requests got no reply" : "");
    EXPECT_FALSE(recorder.report(Nanos::seconds(10)).valid);
  }
}

TEST(Recorder, unsent_requests_count_as_offered_and_make_the_run_invalid) {
  Recorder recorder(ten_seconds(), kOneType);
  fill(recorder, 990);
  recorder.unsent(10);
  const RunReport report = recorder.report(Nanos::seconds(10));
  EXPECT_EQ(report.requests, 1000u);
  EXPECT_FALSE(report.valid);
  EXPECT_NE(report.invalid_reason.find("--flows"), std::string::npos);
}

TEST(Recorder, refusals_by_plan_do_not_make_a_run_invalid) {
  Recorder recorder(ten_seconds(), kOneType);
  fill(recorder, 500);
  for (int i = 0; i < 500; ++i) {
    recorder.sent(0, Nanos(0));
    recorder.failed(0, Outcome::kRefused, "OVERLOADED", true);
  }
  const RunReport report = recorder.report(Nanos::seconds(10));
  EXPECT_TRUE(report.valid) << report.invalid_reason;
  EXPECT_EQ(report.refused, 500u);
}

TEST(Recorder, no_request_is_no_valid_run) {
  Recorder recorder(ten_seconds(), kOneType);
  EXPECT_FALSE(recorder.report(Nanos::seconds(10)).valid);
}

TEST(Recorder, a_closed_loop_has_no_schedule_to_keep) {
  LoadOptions options = ten_seconds();
  options.closed_clients = 3;
  Recorder recorder(options, kOneType);
  fill(recorder, 10, Nanos::seconds(1));
  recorder.stalled({Nanos::millis(5), Nanos::millis(8), Nanos::millis(2)});
  const RunReport report = recorder.report(Nanos::seconds(10));
  EXPECT_TRUE(report.valid);
  EXPECT_EQ(report.loop, "closed");
  EXPECT_FALSE(report.send_lag.has_value());
  EXPECT_FALSE(report.undisturbed.has_value());
  EXPECT_DOUBLE_EQ(report.noise->stalled_ms, 2.0);
}

TEST(Recorder, gaps_of_the_poll_loop_are_noise) {
  Recorder recorder(ten_seconds(), kOneType);
  for (int us : {10, 60, 150, 5000}) recorder.turn(Nanos::micros(us));
  const RunReport report = recorder.report(Nanos::seconds(10));
  EXPECT_DOUBLE_EQ(report.noise->over_50us_per_s, 0.3);
  EXPECT_DOUBLE_EQ(report.noise->over_100us_per_s, 0.2);
  EXPECT_DOUBLE_EQ(report.noise->over_1ms_per_s, 0.1);
  EXPECT_DOUBLE_EQ(report.noise->max_gap_us, 5000);
}

TEST(Recorder, the_timeline_has_a_slice_per_tenth_of_a_second) {
  LoadOptions options = ten_seconds();
  options.timeline = true;
  Recorder recorder(options, kOneType);
  for (int ms : {10, 20, 150, 310}) {
    recorder.replied(0, Nanos::millis(ms), Nanos::micros(ms), Nanos(0), true);
  }
  const RunReport report = recorder.report(Nanos::seconds(10));
  ASSERT_EQ(report.timeline.size(), 3u);
  EXPECT_EQ(report.timeline[0].types[0].count, 2u);
  EXPECT_EQ(report.timeline[1].types[0].count, 1u);
  EXPECT_EQ(report.timeline[2].types[0].count, 0u);
}

}  // namespace
}  // namespace rubato::load
