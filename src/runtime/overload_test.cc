// SPDX-License-Identifier: Apache-2.0
//
// The live runtime's measure of its own overload, and its reaction to it.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mechanism/clock/clock.h"
#include "runtime/exposition.h"
#include "runtime/overload_exposition.h"
#include "runtime/testing/letter_app.h"

namespace rubato {
namespace {

using testing::checkpoints_until;
using testing::LetterServer;

constexpr Nanos kALongTime = Nanos::millis(5);

void spin_for(Nanos time) {
  const Instant end = now() + time;
  while (now() < end) continue;
}

// What a request has used, whatever else has the CPU meanwhile.
void use_cpu_for(Nanos time) {
  const auto used = [] {
    timespec at{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return Nanos::seconds(at.tv_sec) + Nanos(at.tv_nsec);
  };
  const Nanos end = used() + time;
  while (used() < end) continue;
}

TEST(QueueDelay, is_the_wait_before_the_first_start_and_none_once_nothing_waits) {
  LetterServer server("fcfs");
  std::atomic<bool> runs{false};
  std::atomic<bool> go_on{false};
  Nanos seen;
  server.app.on('L') = [&](Request&) {
    runs = true;
    while (!go_on) continue;
    spin_for(kALongTime);
  };
  server.app.on('S') = [&](Request&) { seen = server.runtime->queue_delay(JobClass::kShort); };
  server.start();
  const uint64_t slow = server.occupy("L\n", runs);
  const uint64_t fast = server.connect();
  server.submit(fast, "S\n");
  go_on = true;
  EXPECT_EQ(server.receive(fast, 2), "S\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_GE(seen, kALongTime);
  while (server.runtime->queue_delay(JobClass::kShort) != Nanos()) std::this_thread::yield();
}

TEST(QueueDelay, of_short_requests_knows_nothing_of_a_preempted_long_one_that_waits) {
  LetterServer server("synergy");
  std::atomic<bool> runs{false};
  std::atomic<bool> short_ran{false};
  Nanos long_waited;
  Nanos short_waited = Nanos::max();
  server.app.on('L') = [&](Request& request) {
    long_begin();
    runs = true;
    const uint32_t before = request.preemptions;
    checkpoints_until([&] { return short_ran.load(); });
    if (request.preemptions > before) long_waited = server.runtime->queue_delay(JobClass::kLong);
    long_end();
  };
  // Holds up the long one for longer than a busy machine has held it up itself.
  server.app.on('S') = [&](Request&) {
    spin_for(std::max(kALongTime, server.runtime->queue_delay(JobClass::kShort) * 2));
    short_waited = server.runtime->queue_delay(JobClass::kShort);
    short_ran = true;
  };
  server.start();
  const uint64_t slow = server.occupy("L\n", runs);
  const uint64_t fast = server.connect();
  EXPECT_EQ(server.call(fast, "S\n"), "S\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_GE(long_waited, kALongTime);
  EXPECT_LT(short_waited, long_waited);
}

TEST(QueueDelay, does_not_count_the_control_plane) {
  LetterServer server("fcfs");
  std::atomic<bool> runs{false};
  std::atomic<bool> go_on{false};
  Nanos before;
  Nanos seen = Nanos::max();
  server.app.on('L') = [&](Request&) {
    before = server.runtime->queue_delay(JobClass::kShort);
    runs = true;
    while (!go_on) continue;
    spin_for(kALongTime);
  };
  server.app.on('C') = [&](Request&) { seen = server.runtime->queue_delay(JobClass::kShort); };
  server.start();
  const uint64_t slow = server.occupy("L\n", runs);
  const uint64_t health = server.connect();
  server.submit(health, "C\n");
  go_on = true;
  EXPECT_EQ(server.receive(health, 2), "C\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_LE(seen, before);  // the wait of L itself
}

// As LetterServer::occupy, where a busy machine may make the line late, and so refused.
uint64_t occupy_in_the_end(LetterServer& server, std::string_view line,
                           const std::atomic<bool>& runs) {
  const uint64_t flow = server.connect();
  server.submit(flow, line);
  while (!runs) {
    if (server.datapath->receive(flow, 8, Nanos::micros(100)) == "refused\n") {
      server.submit(flow, line);
    }
  }
  return flow;
}

class RefusingServer {
 public:
  explicit RefusingServer(const std::string& policy = "fcfs") : server_(policy) {
    server_.options.overload = Overload::kAqm;
    server_.options.refusal_rule = {.target_delay = kALongTime / 5,
                                .patience = Nanos(),
                                .calm_idle = Nanos::seconds(60)};
    server_.app.on('L') = [this](Request&) {
      runs_ = true;
      while (!go_on_) continue;
      spin_for(kALongTime);
    };
    server_.start();
    occupy_in_the_end(server_, "L\n", runs_);
  }
  LetterServer* operator->() { return &server_; }

  // The worker is free after a long time from now on. A busy machine may have made L late, and its
  // refusal long: that is paid back first.
  void let_go() {
    if (refused_for(Refusal::kDelay) > 0) spin_for(kALongTime * 4);
    go_on_ = true;
  }
  uint64_t refused_for(Refusal why) {
    return server_.runtime->stats().refusals[static_cast<size_t>(why)][0];
  }

 private:
  std::atomic<bool> runs_{false};
  std::atomic<bool> go_on_{false};
  LetterServer server_;
};

TEST(RefusalRule, who_waited_too_long_is_refused_and_counted_and_who_comes_later_is_served) {
  RefusingServer server;
  const uint64_t late = server->connect();
  server->submit(late, "A\nB\nE\n");
  server.let_go();
  const std::string refusals = "refused\nrefused\nrefused\n";
  EXPECT_EQ(server->receive(late, refusals.size()), refusals);
  EXPECT_GE(server.refused_for(Refusal::kDelay), 3u);
  EXPECT_EQ(server->runtime->stats().overloaded, 1u);
  std::string answer;  // a busy machine may make this one late as well
  do {
    server->submit(late, "D\n");
    answer = server->receive(late, 2);
  } while (answer == "refused\n");
  EXPECT_EQ(answer, "D\n");
  EXPECT_TRUE(server->stop());
}

TEST(RefusalRule, a_rule_that_is_changed_counts_for_what_waits_already) {
  RefusingServer server;
  overload::RefusalSettings rule = server->runtime->settings().refusal_rule();
  EXPECT_EQ(rule.target_delay, kALongTime / 5);
  rule.target_delay = Nanos::seconds(3600);
  server->runtime->settings().set_refusal_rule(rule);
  const uint64_t late = server->connect();
  server->submit(late, "A\n");
  server.let_go();
  EXPECT_EQ(server->receive(late, 2), "A\n");
  EXPECT_EQ(server->runtime->settings().refusal_rule().target_delay, Nanos::seconds(3600));
  EXPECT_TRUE(server->stop());
}

TEST(RefusalRule, the_control_plane_is_served_however_late) {
  RefusingServer server;
  const uint64_t health = server->connect();
  server->submit(health, "C\nC\n");
  server.let_go();
  EXPECT_EQ(server->receive(health, 4), "C\nC\n");
}

TEST(RefusalRule, what_has_been_started_is_finished) {
  LetterServer server("synergy");
  server.options.overload = Overload::kAqm;
  server.options.refusal_rule = {.target_delay = Nanos::micros(1), .patience = Nanos()};
  std::atomic<bool> runs{false};
  std::atomic<bool> short_ran{false};
  server.app.on('L') = [&](Request&) {
    long_begin();
    runs = true;
    checkpoints_until([&] { return short_ran.load(); });
    long_end();
  };
  server.app.on('C') = [&](Request&) {
    spin_for(kALongTime);
    short_ran = true;
  };
  server.start();
  const uint64_t slow = occupy_in_the_end(server, "L\n", runs);
  const uint64_t fast = server.connect();
  EXPECT_EQ(server.call(fast, "C\n"), "C\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
}

// They are started at once, each, and would pile up behind each other: the waits before their
// starts do not tell.
TEST(RefusalRule, long_requests_that_share_a_worker_are_refused_by_their_number) {
  LetterServer server("synergy");
  server.options.overload = Overload::kAqm;
  server.options.refusal_rule = {
      .target_delay = kALongTime * 2, .patience = Nanos(), .budget = 1.0, .long_waits = 2};
  std::atomic<bool> known{false};
  std::atomic<bool> done{false};
  std::atomic<uint32_t> underway{0};
  server.app.on('L') = [&](Request&) {
    long_begin();
    if (known) {
      ++underway;
      checkpoints_until([&] { return done.load(); });
    } else {
      use_cpu_for(kALongTime);
    }
    long_end();
  };
  server.start();
  // Until the server has learned how long they take.
  const uint64_t first = server.connect();
  while (server.runtime->service('L').empty()) {
    server.submit(first, "L\n");
    while (server.datapath->receive(first, 2, Nanos::millis(1)).empty()) continue;
  }
  known = true;
  uint64_t refused = 0;
  for (int i = 0; i < 1000 && refused == 0; ++i) {
    server.submit(server.connect(), "L\n");
    const uint64_t flow = server.connect();
    server.submit(flow, "C\n");  // its wait has the long one preempted
    EXPECT_EQ(server.receive(flow, 2), "C\n");
    refused = server.runtime->stats().refusals[static_cast<size_t>(Refusal::kDelay)][1];
  }
  EXPECT_GT(refused, 0u);
  EXPECT_LE(underway, 6u);  // five of them are a wait of more than twice the target
  done = true;
  EXPECT_TRUE(server.stop());
}

// ---- Limiters --------------------------------------------------------------------------------

// One request runs until it is told to end, and two wait: as many as are let in.
class LimitedServer {
 public:
  LimitedServer() : server_("fcfs") {
    server_.options.overload = Overload::kGradient;
    server_.app.on('L') = [this](Request&) {
      runs_ = true;
      while (!go_on_) std::this_thread::yield();
    };
    server_.start();
    flows_.push_back(server_.occupy("L\n", runs_));
    for (int i = 0; i < 2; ++i) {
      flows_.push_back(server_.connect());
      server_.submit(flows_.back(), "W\n");
    }
  }
  LetterServer* operator->() { return &server_; }

  // What waits is taken in when the worker polls next, which is after L at the latest.
  void let_go() { go_on_ = true; }
  const std::vector<uint64_t>& flows() const { return flows_; }
  uint64_t refused_for(Refusal why) {
    return server_.runtime->stats().refusals[static_cast<size_t>(why)][0];
  }

 private:
  std::atomic<bool> runs_{false};
  std::atomic<bool> go_on_{false};
  std::vector<uint64_t> flows_;
  LetterServer server_;
};

// All come before the worker looks, which is when the first one is done: two of them are let in.
TEST(Limiter, a_flood_is_refused_at_the_door_and_counted_and_what_was_let_in_is_served) {
  LimitedServer server;
  std::vector<uint64_t> flood;
  for (int i = 0; i < 50; ++i) {
    flood.push_back(server->connect());
    server->submit(flood.back(), "F\n");
  }
  const uint64_t health = server->connect();
  server->submit(health, "C\n");
  server.let_go();
  EXPECT_EQ(server->receive(health, 2), "C\n");  // the control plane is not limited
  EXPECT_EQ(server->receive(server.flows()[0], 2), "L\n");
  uint64_t refused = 0;
  for (const uint64_t flow : flood) {
    std::string answer = server->receive(flow, 2);
    if (answer == "F\n") continue;
    EXPECT_EQ(answer.substr(0, 2), "re");
    ++refused;
  }
  EXPECT_GT(refused, 0u);
  EXPECT_EQ(server.refused_for(Refusal::kLimit), server->app.refused());
  EXPECT_EQ(server.refused_for(Refusal::kDelay), 0u);
  // Later requests, one after the other, are all served.
  const uint64_t late = server->connect();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(server->call(late, "S\n"), "S\n");
  EXPECT_TRUE(server->stop());
}

TEST(Limiter, its_limits_are_seen) {
  LimitedServer server;
  OpenMetrics metrics;
  expose_overload(metrics, *server->runtime);
  const std::string text = std::move(metrics).finish();
  EXPECT_NE(text.find("rubato_limit_requests 3"), std::string::npos) << text;
  bool seen = false;
  for (const auto& [name, value] : overload_lines(*server->runtime)) {
    seen |= name == "limit_requests" && value == "3";
    if (name == "overload_control") {
      EXPECT_EQ(value, "gradient");
    }
  }
  EXPECT_TRUE(seen);
  server.let_go();
  EXPECT_TRUE(server->stop());
}

TEST(Limiter, settings_that_nobody_reads_are_refused_by_name) {
  LetterServer server("fcfs");
  server.options.overload_settings = {{"window", "1s"}};
  LoopbackOptions wire;
  LoopbackDatapath datapath(wire, server.app);
  const auto made = Runtime::create(server.options, datapath, server.app);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error(), "overload_set: needs --overload gradient, gradient2, cinnamon or dagor");
  server.options.overload = Overload::kCinnamon;
  const auto other = Runtime::create(server.options, datapath, server.app);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().find("overload_set: "), 0u) << other.error();
}

// A test's RefusingServer in which L's like may wait for much longer than what is short.
TEST(RefusalRule, long_requests_have_a_target_of_their_own_where_one_is_given) {
  LetterServer server("fcfs");
  server.options.overload = Overload::kAqm;
  server.options.refusal_rule = {.target_delay = kALongTime / 5,
                             .target_delay_long = Nanos::seconds(100),
                             .patience = Nanos(),
                             .calm_idle = Nanos::seconds(60)};
  std::atomic<bool> runs{false};
  std::atomic<bool> go_on{false};
  server.app.on('L') = [&](Request&) {
    long_begin();
    runs = true;
    while (!go_on) continue;
    spin_for(kALongTime);
    long_end();
  };
  server.start();
  const uint64_t first = server.connect();
  go_on = true;
  while (server.runtime->service('L').empty()) {  // until it is known that they are long
    server.submit(first, "L\n");
    while (server.datapath->receive(first, 2, Nanos::millis(1)).empty()) continue;
  }
  runs = go_on = false;
  const uint64_t second = occupy_in_the_end(server, "L\n", runs);
  const uint64_t is_long = server.connect();
  const uint64_t is_short = server.connect();
  server.submit(is_long, "L\n");
  server.submit(is_short, "A\n");
  go_on = true;
  EXPECT_EQ(server.receive(is_short, 8), "refused\n");
  EXPECT_EQ(server.receive(second, 2), "L\n");
  EXPECT_EQ(server.receive(is_long, 2), "L\n");
  EXPECT_TRUE(server.stop());
}

// The figures that a server with credits would report.
struct FixedCredits final : CreditSource {
  int64_t drained() const override { return now.drained; }
  int64_t sessions() const override { return now.sessions; }
  int64_t outstanding() const override { return 0; }
  void withhold(int64_t) override {}
  void give_back(int64_t) override {}
  CreditReport report() const override { return now; }

  CreditReport now;
};

TEST(Credits, that_reject_requests_are_seen_among_the_refusals) {
  FixedCredits credits;
  credits.now.refusals[static_cast<size_t>(Refusal::kDelay)] = {5, 2};
  credits.now.refusals[static_cast<size_t>(Refusal::kShare)] = {1, 0};
  LetterServer server("fcfs");
  server.options.credits = &credits;
  server.start();
  const RuntimeStats stats = server.runtime->stats();
  EXPECT_EQ(stats.refused, 8u);
  EXPECT_EQ(stats.refusals, credits.now.refusals);
  EXPECT_TRUE(server.stop());
}

std::string value_of(const std::vector<std::pair<std::string, std::string>>& lines,
                     std::string_view name) {
  for (const auto& [key, value] : lines) {
    if (key == name) return value;
  }
  return "(none)";
}

TEST(OverloadLines, show_what_a_balancer_is_told_once_it_is_told_something) {
  LetterServer server("fcfs");
  server.start();
  EXPECT_EQ(value_of(overload_lines(*server.runtime), "advertised_weight_percent"), "(none)");
  server.runtime->advertise(64);
  EXPECT_EQ(value_of(overload_lines(*server.runtime), "advertised_weight_percent"), "64");
  EXPECT_EQ(value_of(overload_lines(*server.runtime), "advertised_state"), "up");
  OpenMetrics out;
  expose_overload(out, *server.runtime);
  EXPECT_NE(std::move(out).finish().find("rubato_advertised_weight 0.64\n"), std::string::npos);
  server.runtime->advertise(0);
  EXPECT_EQ(value_of(overload_lines(*server.runtime), "advertised_state"), "drain");
  EXPECT_TRUE(server.stop());
}

TEST(OverloadLines, call_a_server_overloaded_whose_credits_say_so) {
  FixedCredits credits;
  credits.now.sessions = 10;
  credits.now.drained = 4;
  credits.now.delay = Nanos::millis(8);
  LetterServer server("fcfs");
  server.options.credits = &credits;
  server.options.refusal_rule.target_delay_long = Nanos::millis(20);
  server.start();
  const auto lines = overload_lines(*server.runtime);
  EXPECT_EQ(value_of(lines, "overload_control"), "credits");
  EXPECT_EQ(value_of(lines, "overload_state"), "overloaded");
  EXPECT_EQ(value_of(lines, "target_delay_us"), "3000.00");
  EXPECT_EQ(value_of(lines, "refuse_delay_us_long"), "40000.00");
  EXPECT_TRUE(server.stop());
}

TEST(RefusalRule, of_two_pipelines_each_takes_its_turn_and_not_the_others) {
  LetterServer server("fcfs");
  server.options.overload = Overload::kAqm;
  server.options.refusal_rule = {
      .target_delay = kALongTime * 8, .patience = Nanos(), .budget = 1.0};
  std::atomic<bool> runs{false};
  std::atomic<bool> go_on{false};
  server.app.on('L') = [&](Request&) {
    runs = true;
    while (!go_on) continue;
    spin_for(kALongTime * 17);
  };
  server.app.on('P') = [&](Request&) { spin_for(kALongTime / 2); };
  server.start();
  occupy_in_the_end(server, "L\n", runs);
  const uint64_t late = server.connect();
  server.submit(late, "A\n");
  go_on = true;
  EXPECT_EQ(server.receive(late, 8), "refused\n");  // it is overloaded now
  std::string many;
  for (int i = 0; i < 100; ++i) many += "P\n";
  constexpr auto kOfShare = static_cast<size_t>(Refusal::kShare);
  RuntimeStats stats = server.runtime->stats();
  // A busy machine may let one of them be served before the other is there.
  for (int i = 0; i < 100 && stats.refusals[kOfShare][0] == 0; ++i) {
    const uint64_t before = stats.requests + stats.refused;
    for (const uint64_t pipeline : {server.connect(), server.connect()}) {
      server.submit(pipeline, many);
    }
    do {
      stats = server.runtime->stats();
    } while (stats.requests + stats.refused < before + 200);
  }
  EXPECT_GT(stats.refusals[kOfShare][0], 0u);
}

TEST(RefusalRule, nobody_is_refused_unless_asked_for) {
  LetterServer server("fcfs");
  std::atomic<bool> runs{false};
  server.app.on('L') = [&](Request&) {
    runs = true;
    spin_for(kALongTime * 4);
  };
  server.start();
  server.occupy("L\n", runs);
  const uint64_t late = server.connect();
  EXPECT_EQ(server.call(late, "A\n"), "A\n");
  EXPECT_EQ(server.runtime->stats().refused, 0u);
}

}  // namespace
}  // namespace rubato
