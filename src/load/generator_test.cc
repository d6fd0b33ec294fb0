// SPDX-License-Identifier: Apache-2.0
#include "load/generator.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>
#include <memory>
#include <thread>

#include "load/preload.h"
#include "load/testing/fake_server.h"

namespace rubato::load {
namespace {

struct Outcomes {
  Result<RunReport> report = Error{"not run"};
  Histogram latency;  // of the first type
};

LoadOptions short_run(const FakeServer& server, double rate, Nanos duration) {
  LoadOptions options;
  options.target = server.target();
  options.rate = rate;
  options.duration = duration;
  options.warmup = Nanos(0);
  options.flows = 4;
  return options;
}

Outcomes run(const LoadOptions& options, ArrivalShape shape = ArrivalShape::kUniform) {
  auto source = make_kv_source("ping:1", KvShape{}, "");
  Generator generator(options, **source, Arrivals::generate(shape, options.rate, options.seed));
  const volatile std::sig_atomic_t stop = 0;
  Outcomes outcomes;
  outcomes.report = generator.run(&stop);
  outcomes.latency = generator.recorder().latency_of(0);
  return outcomes;
}

uint64_t longer_than(const Histogram& latency, Nanos bound) {
  return latency.count() - latency.count_at_most(bound);
}

TEST(Generator, every_request_of_the_schedule_is_sent_and_answered) {
  FakeServer server;
  for (Pick pick : {Pick::kIdle, Pick::kRandom}) {
    LoadOptions options = short_run(server, 2000, Nanos::millis(300));
    options.pick = pick;
    const Outcomes outcomes = run(options);
    ASSERT_TRUE(outcomes.report.ok()) << outcomes.report.error();
    const RunReport& report = outcomes.report.value();
    EXPECT_NEAR(static_cast<double>(report.requests), 600, 1);
    EXPECT_EQ(report.types[0].count, report.requests);
    EXPECT_EQ(report.lost + report.refused + report.errors, 0u);
    EXPECT_EQ(report.loop, "open");
  }
}

TEST(Generator, a_stall_is_charged_to_every_request_it_delays) {
  FakeScript script;
  script.stall_at = 300;
  script.stall = Nanos::millis(100);
  FakeServer server(script);
  const Outcomes outcomes = run(short_run(server, 1000, Nanos::seconds(1)));
  ASSERT_TRUE(outcomes.report.ok()) << outcomes.report.error();
  // One request per millisecond is due while the server stands still: the first half of them waits
  // for 50 ms and more, although only four connections exist to notice.
  EXPECT_GE(longer_than(outcomes.latency, Nanos::millis(50)), 48u);
  EXPECT_GE(longer_than(outcomes.latency, Nanos::millis(10)), 88u);
  EXPECT_GE(outcomes.latency.max(), Nanos::millis(99));
}

// A server that waits of its own accord was not stalled by the machine: it is not excused.
TEST(Generator, a_server_that_is_slow_by_itself_is_not_excused) {
  FakeScript script;
  script.stall_at = 300;
  script.stall = Nanos::millis(100);
  FakeServer server(script);
  LoadOptions options = short_run(server, 1000, Nanos::seconds(1));
  options.watched_server = static_cast<uint32_t>(::getpid());
  const Outcomes outcomes = run(options);
  ASSERT_TRUE(outcomes.report.ok()) << outcomes.report.error();
  const UndisturbedReport& report = *outcomes.report.value().undisturbed;
  EXPECT_GE(report.server_threads, 1u);
  EXPECT_LE(report.types[0].count, outcomes.latency.count());
  // Unless this machine stalled for long as well, which the count of stalls tells.
  const double slowest_us = report.types[0].latency.max_us;
  EXPECT_TRUE(report.share < 0.9 || slowest_us >= 90e3) << slowest_us;
}

TEST(Generator, a_process_to_watch_that_is_not_there_is_told) {
  FakeServer server;
  LoadOptions options = short_run(server, 1000, Nanos::millis(10));
  options.watched_server = std::numeric_limits<int32_t>::max();
  const Outcomes outcomes = run(options);
  ASSERT_FALSE(outcomes.report.ok());
  EXPECT_NE(outcomes.report.error().find("2147483647"), std::string::npos);
}

TEST(Generator, a_closed_loop_hides_the_stall) {
  FakeScript script;
  script.stall_at = 300;
  script.stall = Nanos::millis(100);
  FakeServer server(script);
  LoadOptions options = short_run(server, 1000, Nanos::millis(500));
  options.closed_clients = 1;
  const Outcomes outcomes = run(options);
  ASSERT_TRUE(outcomes.report.ok()) << outcomes.report.error();
  EXPECT_EQ(outcomes.report.value().loop, "closed");
  EXPECT_GE(outcomes.latency.max(), Nanos::millis(99));
  EXPECT_LT(longer_than(outcomes.latency, Nanos::millis(50)), 10u);
}

// A nap ends with a reply or a due request, not with its limit of 20 ms: then 50 requests at most.
TEST(Generator, a_closed_loop_that_naps_sends_when_its_reply_has_come) {
  FakeServer server;
  LoadOptions options = short_run(server, 1000, Nanos::seconds(1));
  options.closed_clients = 1;
  options.nap = true;
  const Outcomes outcomes = run(options);
  ASSERT_TRUE(outcomes.report.ok()) << outcomes.report.error();
  EXPECT_GE(outcomes.report.value().requests, 100u);
}

TEST(Generator, an_open_loop_that_naps_sends_what_waited_when_a_connection_is_free) {
  FakeScript script;
  script.stall_at = 10;
  script.stall = Nanos::millis(50);
  FakeServer server(script);
  LoadOptions options = short_run(server, 1000, Nanos::millis(500));
  options.flows = 1;
  options.nap = true;
  const Outcomes outcomes = run(options);
  ASSERT_TRUE(outcomes.report.ok()) << outcomes.report.error();
  EXPECT_EQ(outcomes.report.value().send_lag->unsent, 0u);
}

TEST(Generator, a_paced_closed_loop_keeps_its_rate_and_sends_no_pair_after_a_stall) {
  const Nanos gap = Nanos::millis(2);
  EXPECT_EQ(next_paced(Nanos::millis(4), gap, Nanos::micros(4100)), Nanos::millis(6));
  EXPECT_EQ(next_paced(Nanos::millis(4), gap, Nanos::millis(6)), Nanos::millis(8));
  EXPECT_EQ(next_paced(Nanos::millis(4), gap, Nanos::millis(104)), Nanos::millis(106));
  EXPECT_EQ(next_paced(Nanos::millis(4), Nanos(0), Nanos::millis(5)), Nanos::millis(5));
}

TEST(Generator, refusals_and_errors_are_counted_beside_the_latencies) {
  FakeScript script;
  script.reply = [](uint64_t i) {
    return i % 10 == 0   ? "-OVERLOADED later\r\n"
           : i % 10 == 1 ? "-ERR no such thing\r\n"
                         : "+OK\r\n";
  };
  FakeServer server(script);
  const Outcomes outcomes = run(short_run(server, 1000, Nanos::millis(200)));
  ASSERT_TRUE(outcomes.report.ok()) << outcomes.report.error();
  const RunReport& report = outcomes.report.value();
  EXPECT_NEAR(static_cast<double>(report.refused), 20, 1);
  EXPECT_NEAR(static_cast<double>(report.errors), 20, 1);
  EXPECT_EQ(report.types[0].count + report.refused + report.errors, report.requests);
  EXPECT_FALSE(report.valid);
  EXPECT_NE(report.invalid_reason.find("ERR no such thing"), std::string::npos);
}

TEST(Generator, a_connection_closed_under_a_request_loses_it_and_is_reopened) {
  FakeScript script;
  script.close_at = 50;
  FakeServer server(script);
  LoadOptions options = short_run(server, 200, Nanos::millis(1500));
  options.flows = 1;
  const Outcomes outcomes = run(options);
  ASSERT_TRUE(outcomes.report.ok()) << outcomes.report.error();
  const RunReport& report = outcomes.report.value();
  EXPECT_EQ(report.lost, 1u);
  EXPECT_EQ(report.types[0].count, report.requests - 1);
  EXPECT_FALSE(report.valid);
}

TEST(Generator, a_server_that_goes_away_for_good_ends_the_run_with_what_there_is) {
  FakeScript script;
  script.close_at = 20;
  auto server = std::make_unique<FakeServer>(script);
  LoadOptions options = short_run(*server, 100, Nanos::seconds(60));
  options.flows = 1;
  auto source = make_kv_source("ping:1", KvShape{}, "");
  Generator generator(options, **source, Arrivals::generate(ArrivalShape::kUniform, 100, 1));
  // Once the connection has been closed under a request the server goes altogether.
  std::thread end([&server] {
    while (server->commands() < 21) std::this_thread::yield();
    server.reset();
  });
  const volatile std::sig_atomic_t stop = 0;
  const Result<RunReport> report = generator.run(&stop);
  end.join();
  ASSERT_TRUE(report.ok()) << report.error();
  EXPECT_FALSE(report.value().valid);
  EXPECT_FALSE(report.value().invalid_reason.empty());
  EXPECT_GE(report.value().types[0].count, 20u);
  EXPECT_GE(report.value().lost, 1u);
}

TEST(Generator, replies_that_never_come_are_timeouts_and_make_the_run_invalid) {
  FakeScript script;
  script.reply = [](uint64_t i) { return i < 3 ? "+OK\r\n" : ""; };
  FakeServer server(script);
  LoadOptions options = short_run(server, 1000, Nanos::millis(100));
  options.reply_timeout = Nanos::millis(50);
  const Outcomes outcomes = run(options);
  ASSERT_TRUE(outcomes.report.ok()) << outcomes.report.error();
  const RunReport& report = outcomes.report.value();
  EXPECT_EQ(report.types[0].count, 3u);
  EXPECT_EQ(report.timeouts, options.flows);
  EXPECT_EQ(report.send_lag->unsent + report.timeouts + 3, report.requests);
  EXPECT_FALSE(report.valid);
}

TEST(Generator, large_replies_are_followed_to_their_end) {
  FakeScript script;
  script.reply = [](uint64_t) { return "$1000000\r\n" + std::string(1000000, 'x') + "\r\n"; };
  FakeServer server(script);
  const Outcomes outcomes = run(short_run(server, 100, Nanos::millis(200)));
  ASSERT_TRUE(outcomes.report.ok()) << outcomes.report.error();
  EXPECT_EQ(outcomes.report.value().types[0].count, outcomes.report.value().requests);
}

TEST(Generator, a_server_that_is_not_there_is_one_line) {
  LoadOptions options;
  {
    FakeServer server;
    options = short_run(server, 100, Nanos::millis(100));
  }
  const Outcomes outcomes = run(options);
  ASSERT_FALSE(outcomes.report.ok());
  EXPECT_NE(outcomes.report.error().find("cannot connect to 127.0.0.1:"), std::string::npos);
}

TEST(Generator, a_server_that_does_not_speak_resp_is_told_apart) {
  FakeScript script;
  script.reply = [](uint64_t) { return "HTTP/1.1 400 Bad Request\r\n"; };
  FakeServer server(script);
  const Outcomes outcomes = run(short_run(server, 100, Nanos::millis(100)));
  ASSERT_FALSE(outcomes.report.ok());
  EXPECT_NE(outcomes.report.error().find("not RESP"), std::string::npos);
}

TEST(Generator, a_refused_password_ends_the_run) {
  FakeScript script;
  script.reply = [](uint64_t) { return "-WRONGPASS no\r\n"; };
  FakeServer server(script);
  LoadOptions options = short_run(server, 100, Nanos::millis(100));
  options.password = "wrong";
  const Outcomes outcomes = run(options);
  ASSERT_FALSE(outcomes.report.ok());
  EXPECT_NE(outcomes.report.error().find("password"), std::string::npos);
}

TEST(Generator, an_interrupt_ends_the_run_with_what_there_is) {
  FakeServer server;
  const LoadOptions options = short_run(server, 1000, Nanos::seconds(100));
  auto source = make_kv_source("ping:1", KvShape{}, "");
  Generator generator(options, **source, Arrivals::generate(ArrivalShape::kUniform, 1000, 1));
  const volatile std::sig_atomic_t stop = 1;
  const Result<RunReport> report = generator.run(&stop);
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report.value().valid);
  EXPECT_NE(report.value().invalid_reason.find("interrupted"), std::string::npos);
}

TEST(Generator, the_warm_up_is_left_out_and_the_timeline_is_not) {
  FakeServer server;
  LoadOptions options = short_run(server, 1000, Nanos::millis(500));
  options.warmup = Nanos::millis(300);
  options.timeline = true;
  const Outcomes outcomes = run(options);
  ASSERT_TRUE(outcomes.report.ok()) << outcomes.report.error();
  EXPECT_NEAR(static_cast<double>(outcomes.report.value().requests), 200, 1);
  EXPECT_GE(outcomes.report.value().timeline.size(), 3u);
}

LoadOptions options_for(const FakeServer& server) {
  LoadOptions options;
  options.target = server.target();
  return options;
}

TEST(Preload, sets_every_key_and_fills_what_the_mix_reads) {
  FakeServer server;
  const KvShape shape{.keys = 1234, .value_size_bytes = 10, .scan_limit = 50};
  const PreloadPlan plan = plan_preload("get:1,lrange/70:1, smembers:1,hgetall/30:1", shape);
  EXPECT_EQ(plan.list_items, 70u);
  EXPECT_EQ(plan.set_members, 50u);
  EXPECT_EQ(plan.hash_fields, 30u);
  ASSERT_TRUE(preload(options_for(server), plan).ok());
  EXPECT_EQ(server.commands(), 1234u + 1 + 70 + 1 + 50 + 1 + 30);
}

TEST(Preload, leaves_lists_of_commands_alone) {
  const KvShape shape{.keys = 1, .value_size_bytes = 1, .scan_limit = 50};
  EXPECT_EQ(plan_preload("lrange/mylist/0/100:1,lrangex:1", shape).list_items, 0u);
  EXPECT_EQ(plan_preload("lrange/70:1,lrange/mylist/0/100:1", shape).list_items, 70u);
}

TEST(Preload, sets_the_counters_of_memcached) {
  EXPECT_TRUE(plan_preload("get:1, incr:1", KvShape{}, Protocol::kMemcached).counters);
  EXPECT_FALSE(plan_preload("get:1", KvShape{}, Protocol::kMemcached).counters);
  EXPECT_FALSE(plan_preload("incr:1", KvShape{}).counters);
}

TEST(Preload, stops_at_the_first_error) {
  FakeScript script;
  script.reply = [](uint64_t) { return "-ERR read only\r\n"; };
  FakeServer server(script);
  const Status done = preload(options_for(server), plan_preload("get:1", KvShape{}));
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().find("read only"), std::string::npos);
}

}  // namespace
}  // namespace rubato::load
