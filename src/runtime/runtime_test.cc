// SPDX-License-Identifier: Apache-2.0
//
// The live runtime on a loopback datapath: the handling of requests, policy by policy.
#include "runtime/runtime.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "mechanism/clock/clock.h"
#include "runtime/exposition.h"
#include "runtime/state_json.h"
#include "runtime/testing/letter_app.h"

namespace rubato {
namespace {

using testing::checkpoints_until;
using testing::LetterServer;

// A long request that ends only when a short one has run: it hangs unless it is preempted.
void expect_short_overtakes_long(LetterServer& server) {
  std::atomic<bool> long_runs{false};
  std::atomic<bool> short_ran{false};
  server.app.on('L') = [&](Request&) {
    long_begin();
    long_runs = true;
    checkpoints_until([&] { return short_ran.load(); });
    long_end();
  };
  server.app.on('S') = [&](Request&) { short_ran = true; };
  server.start();
  const uint64_t slow = server.occupy("L\n", long_runs);
  const uint64_t fast = server.connect();
  EXPECT_EQ(server.call(fast, "S\n"), "S\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_TRUE(server.stop());
  EXPECT_GE(server.runtime->stats().preemptions, 1u);
  EXPECT_EQ(server.runtime->stats().preemptions, server.runtime->stats().resumed);
}

TEST(Runtime, short_request_overtakes_a_long_one_under_synergy) {
  LetterServer server("synergy");
  expect_short_overtakes_long(server);
}

TEST(Runtime, short_request_overtakes_a_long_one_under_ps) {
  LetterServer server("ps");
  expect_short_overtakes_long(server);
}

// Requests that follow each other in a pipeline are recorded, too.
TEST(Runtime, arrivals_are_recorded_once_each_and_the_control_plane_apart) {
  LetterServer server("synergy");
  server.options.record_arrivals = true;
  const uint64_t before = ArrivalSlots::slot_of(now());
  server.start();
  const uint64_t flow = server.connect();
  EXPECT_EQ(server.call(flow, "A\n"), "A\n");
  server.submit(flow, "A\nB\nC\nA\n");
  EXPECT_EQ(server.receive(flow, 8), "A\nB\nC\nA\n");
  EXPECT_TRUE(server.stop());
  const std::vector<ArrivalSlots*> workers = server.runtime->arrivals();
  ASSERT_EQ(workers.size(), 1u);
  uint64_t noted = workers[0]->late();
  for (uint64_t slot = before; slot <= workers[0]->newest(); ++slot) {
    noted += workers[0]->count(slot);
  }
  EXPECT_EQ(noted, 4u);
  EXPECT_EQ(workers[0]->control(), 1u);
}

TEST(Runtime, arrivals_are_not_recorded_unless_asked_for) {
  LetterServer server("fcfs");
  server.start();
  EXPECT_TRUE(server.runtime->arrivals().empty());
}

TEST(Runtime, timer_core_thread_preempts) {
  LetterServer server("synergy");
  server.options.preemption_clock = PreemptionClock::kTimerCore;
  expect_short_overtakes_long(server);
}

TEST(Runtime, feedback_alone_makes_a_request_preemptible) {
  LetterServer server("synergy");
  server.options.classify = Classify::kFeedback;
  expect_short_overtakes_long(server);
}

TEST(Runtime, embedded_timer_core_preempts_when_polled) {
  LetterServer server("synergy");
  server.options.preemption_clock = PreemptionClock::kEmbedded;
  std::atomic<bool> long_runs{false};
  std::atomic<bool> short_ran{false};
  server.app.on('L') = [&](Request&) {
    long_begin();
    long_runs = true;
    checkpoints_until([&] { return short_ran.load(); });
  };
  server.app.on('S') = [&](Request&) { short_ran = true; };
  server.start();
  const uint64_t slow = server.occupy("L\n", long_runs);
  const uint64_t fast = server.connect();
  server.submit(fast, "S\n");
  while (!short_ran) server.runtime->poll_timer();
  EXPECT_EQ(server.receive(fast, 2), "S\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
}

TEST(Runtime, request_becomes_long_by_age_without_feedback) {
  LetterServer server("synergy");
  std::atomic<bool> runs{false};
  std::atomic<bool> short_ran{false};
  server.app.on('X') = [&](Request&) {
    runs = true;
    checkpoints_until([&] { return short_ran.load(); });
  };
  server.app.on('S') = [&](Request&) { short_ran = true; };
  server.start();
  const uint64_t slow = server.occupy("X\n", runs);
  const uint64_t fast = server.connect();
  EXPECT_EQ(server.call(fast, "S\n"), "S\n");
  EXPECT_EQ(server.receive(slow, 2), "X\n");
  EXPECT_GE(server.runtime->stats().long_by_age, 1u);
}

// It is known to be long by nothing but its age.
TEST(Runtime, replies_of_a_pipeline_do_not_wait_for_a_long_request_behind_them) {
  for (const char* policy : {"synergy", "ps"}) {
    LetterServer server(policy);
    std::atomic<bool> received{false};
    server.app.on('X') = [&](Request&) { checkpoints_until([&] { return received.load(); }); };
    server.start();
    const uint64_t flow = server.connect();
    server.submit(flow, "S\nX\n");
    EXPECT_EQ(server.receive(flow, 2), "S\n") << policy;
    received = true;
    EXPECT_EQ(server.receive(flow, 2), "X\n") << policy;
  }
}

TEST(Runtime, unmarked_request_is_never_preempted_under_feedback) {
  LetterServer server("synergy");
  server.options.classify = Classify::kFeedback;
  std::atomic<bool> runs{false};
  std::atomic<bool> submitted{false};
  std::atomic<uint32_t> preemptions{0};
  server.app.on('X') = [&](Request& request) {
    runs = true;
    checkpoints_until([&] { return submitted.load(); });
    for (int i = 0; i < 100'000; ++i) checkpoint();
    preemptions = request.preemptions;
  };
  server.start();
  const uint64_t slow = server.occupy("X\n", runs);
  const uint64_t fast = server.connect();
  server.submit(fast, "S\n");
  submitted = true;
  EXPECT_EQ(server.receive(slow, 2), "X\n");
  EXPECT_EQ(server.receive(fast, 2), "S\n");
  EXPECT_EQ(preemptions, 0u);
}

TEST(Runtime, long_request_is_not_preempted_for_nobody) {
  LetterServer server("synergy");
  server.app.on('L') = [&](Request&) {
    long_begin();
    for (int i = 0; i < 1'000'000; ++i) checkpoint();
  };
  server.start();
  const uint64_t flow = server.connect();
  EXPECT_EQ(server.call(flow, "L\n"), "L\n");
  EXPECT_TRUE(server.stop());
  EXPECT_EQ(server.runtime->stats().preemptions, 0u);
  EXPECT_GT(server.runtime->stats().preemptions_avoided, 0u);
}

TEST(Runtime, preemption_waits_for_the_end_of_a_forbidden_stretch) {
  LetterServer server("synergy");
  std::atomic<bool> runs{false};
  std::atomic<bool> submitted{false};
  std::atomic<bool> short_ran{false};
  std::atomic<bool> ran_inside{false};
  server.app.on('L') = [&](Request&) {
    long_begin();
    {
      const NoPreempt guard;
      runs = true;
      checkpoints_until([&] { return submitted.load(); });
      for (int i = 0; i < 100'000; ++i) checkpoint();
      ran_inside = short_ran.load();
    }
    checkpoints_until([&] { return short_ran.load(); });
  };
  server.app.on('S') = [&](Request&) { short_ran = true; };
  server.start();
  const uint64_t slow = server.occupy("L\n", runs);
  const uint64_t fast = server.connect();
  server.submit(fast, "S\n");
  submitted = true;
  EXPECT_EQ(server.receive(fast, 2), "S\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_FALSE(ran_inside);
}

// The policy leaves the last request of an inbox to its worker, which does not come to serve it.
TEST(Runtime, what_waits_at_a_worker_without_checkpoints_is_served_by_an_idle_one) {
  for (const char* policy : {"synergy", "steal", "sbb", "cfcfs", "darc"}) {
    LetterServer server(policy, 2);
    std::atomic<bool> runs{false};
    std::atomic<bool> short_ran{false};
    server.app.on('L') = [&](Request&) {
      runs = true;
      while (!short_ran) std::this_thread::yield();
    };
    server.app.on('S') = [&](Request&) { short_ran = true; };
    server.start();
    // Both come with one poll, so that one is in the inbox; or the second is still in the wire.
    const uint64_t slow = server.connect();
    const uint64_t fast = server.connect();
    server.submit(slow, "L\n");
    server.submit(fast, "S\n");
    EXPECT_EQ(server.receive(fast, 2), "S\n") << policy;
    EXPECT_EQ(server.receive(slow, 2), "L\n") << policy;
  }
}

// A worker that sleeps through a request has no part in it.
TEST(Runtime, a_request_wakes_no_more_workers_than_will_serve_it) {
  constexpr uint32_t kRequests = 200;
  for (const char* policy : {"synergy", "darc", "tinyquanta", "jbsq", "altocumulus", "sbb"}) {
    LetterServer server(policy, 16);
    server.start();
    for (uint32_t i = 0; i < kRequests; ++i) {
      EXPECT_EQ(server.call(server.connect(i % 16), "S\n"), "S\n");
    }
    EXPECT_TRUE(server.stop());
    EXPECT_LE(server.runtime->stats().woken, 2 * kRequests) << policy;
  }
}

// In the kernel's count a thread that blocks looks like a thread whose CPU others have.
TEST(Runtime, time_without_a_cpu_makes_no_request_long_and_no_quantum_longer) {
  LetterServer server("synergy");
  server.options.policy_settings = {
      {"quantum_initial", "1ms"}, {"quantum_max", "1s"}, {"ema_clip", "0"}};
  server.app.on('B') = [&](Request&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (int i = 0; i < 1'000; ++i) checkpoint();
  };
  server.start();
  const uint64_t flow = server.connect();
  EXPECT_EQ(server.call(flow, "B\n"), "B\n");
  EXPECT_EQ(server.call(flow, "S\n"), "S\n");
  EXPECT_TRUE(server.stop());
  EXPECT_EQ(server.runtime->stats().long_by_age, 0u);
  EXPECT_LT(server.runtime->stats().quanta.at(0), Nanos::millis(50));
}

TEST(Runtime, more_long_requests_than_fibers_all_finish_and_are_counted) {
  LetterServer server("ps");
  server.options.max_fibers = 3;
  server.options.policy_settings["quantum"] = "1us";
  constexpr int kFlows = 12;
  std::atomic<bool> all_wait{false};
  server.app.on('L') = [&](Request&) {
    checkpoints_until([&] { return all_wait.load(); });
    for (int i = 0; i < 20'000; ++i) checkpoint();
  };
  server.start();
  std::vector<uint64_t> flows;
  for (int i = 0; i < kFlows; ++i) flows.push_back(server.connect());
  for (const uint64_t flow : flows) server.submit(flow, "L\n");
  all_wait = true;
  for (const uint64_t flow : flows) EXPECT_EQ(server.receive(flow, 2), "L\n");
  EXPECT_TRUE(server.stop());
  EXPECT_GT(server.runtime->stats().preemptions_denied, 0u);
  EXPECT_LE(server.runtime->stats().fibers, 3u);
}

TEST(Runtime, full_inbox_refuses_explicitly_and_loses_nothing) {
  LetterServer server("fcfs");
  server.options.inbox_capacity = 4;
  std::atomic<bool> release{false};
  std::atomic<bool> blocked{false};
  server.app.on('B') = [&](Request&) {
    blocked = true;
    while (!release) std::this_thread::yield();
  };
  server.start();
  const uint64_t first = server.occupy("B\n", blocked);
  std::vector<uint64_t> flows;
  for (int i = 0; i < 20; ++i) flows.push_back(server.connect());
  for (const uint64_t flow : flows) server.submit(flow, "S\n");
  release = true;
  EXPECT_EQ(server.receive(first, 2), "B\n");
  int served = 0;
  int refused = 0;
  for (const uint64_t flow : flows) {
    const std::string reply = server.receive(flow, 2);
    served += reply == "S\n" ? 1 : 0;
    refused += reply.starts_with("re") ? 1 : 0;
  }
  EXPECT_EQ(served + refused, 20);
  EXPECT_TRUE(server.stop());
  EXPECT_EQ(server.runtime->stats().refused, static_cast<uint64_t>(refused));
}

TEST(Runtime, control_plane_is_served_before_a_long_queue) {
  LetterServer server("fcfs");
  std::atomic<bool> release{false};
  std::atomic<bool> blocked{false};
  std::atomic<int> served{0};
  std::atomic<int> served_before_control{-1};
  server.app.on('B') = [&](Request&) {
    blocked = true;
    while (!release) std::this_thread::yield();
  };
  server.app.on('S') = [&](Request&) { ++served; };
  server.app.on('C') = [&](Request&) { served_before_control = served.load(); };
  server.start();
  server.occupy("B\n", blocked);
  std::vector<uint64_t> flows;
  for (int i = 0; i < 30; ++i) flows.push_back(server.connect());
  for (const uint64_t flow : flows) server.submit(flow, "S\n");
  const uint64_t control = server.connect();
  server.submit(control, "C\n");
  release = true;
  EXPECT_EQ(server.receive(control, 2), "C\n");
  for (const uint64_t flow : flows) EXPECT_EQ(server.receive(flow, 2), "S\n");
  EXPECT_LE(served_before_control, 8);
}

TEST(Runtime, drain_answers_what_is_in_flight) {
  LetterServer server("synergy");
  std::atomic<bool> runs{false};
  std::atomic<bool> release{false};
  server.app.on('L') = [&](Request&) {
    runs = true;
    checkpoints_until([&] { return release.load(); });
  };
  server.start();
  const uint64_t flow = server.occupy("L\n", runs);
  server.runtime->stop();
  release = true;
  EXPECT_EQ(server.receive(flow, 2), "L\n");
  EXPECT_TRUE(server.stop());
}

TEST(Runtime, drain_limit_ends_a_server_whose_request_never_ends) {
  LetterServer server("synergy");
  server.options.drain_limit = Nanos::millis(20);
  std::atomic<bool> runs{false};
  std::atomic<bool> keep_arriving{true};
  server.app.on('L') = [&](Request&) {
    long_begin();
    runs = true;
    checkpoints_until([&] { return !keep_arriving.load(); });
  };
  server.start();
  server.occupy("L\n", runs);
  server.runtime->stop();
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  keep_arriving = false;
  server.stop();
}

TEST(Runtime, server_loop_of_the_application_runs_on_every_fiber) {
  LetterServer server("synergy");
  std::atomic<int> loops{0};
  server.loop = [&] {
    ++loops;
    while (Request* request = recv()) {
      server.app.handle(*request);
      send(*request);
    }
    --loops;
  };
  expect_short_overtakes_long(server);
  EXPECT_EQ(loops, 0);
}

ExposedTypes letters() {
  return {[](uint32_t type) { return std::string(1, static_cast<char>(type)); }, 128};
}

TEST(Runtime, victim_learns_its_blocker_and_its_wait_counts) {
  LetterServer server("fcfs");
  server.options.slow_threshold = Nanos::millis(1);
  std::atomic<bool> runs{false};
  std::atomic<bool> submitted{false};
  server.app.on('L') = [&](Request&) {
    runs = true;
    while (!submitted) std::this_thread::yield();
    const Instant until = now() + Nanos::millis(5);
    while (now() < until) checkpoint();
  };
  server.start();
  server.occupy("L\n", runs);
  const uint64_t fast = server.connect();
  server.submit(fast, "S\n");
  submitted = true;
  EXPECT_EQ(server.receive(fast, 2), "S\n");
  EXPECT_TRUE(server.stop());
  const auto slow_ones = server.app.slow_ones();
  ASSERT_EQ(slow_ones.size(), 2u);
  EXPECT_EQ(slow_ones[1].first, 'S');
  EXPECT_EQ(slow_ones[1].second.blocker_type, static_cast<uint32_t>('L'));
  EXPECT_GE(slow_ones[1].second.wait, Nanos::millis(4));
  EXPECT_GE(server.runtime->latency('S').max(), Nanos::millis(4));
  const std::vector<BlockedPair> blocked = server.runtime->blocked();
  ASSERT_EQ(blocked.size(), 1u);
  EXPECT_EQ(blocked[0].victim, static_cast<uint32_t>('S'));
  EXPECT_EQ(blocked[0].blocker, static_cast<uint32_t>('L'));
  EXPECT_EQ(blocked[0].requests, 1u);
  EXPECT_GE(blocked[0].held, Nanos::millis(4));
  EXPECT_GE(server.runtime->served('S').waited, Nanos::millis(4));
  const std::string state = state_json(*server.runtime, *server.datapath, letters());
  EXPECT_NE(state.find(R"("victim":"S","blocker":"L","requests":1,)"), std::string::npos) << state;
}

TEST(Runtime, long_reply_leaves_in_pieces_with_short_requests_between_them) {
  LetterServer server("synergy");
  constexpr size_t kReplyBytes = 64 * kReplyPieceBytes;
  std::atomic<bool> submitted{false};
  std::atomic<bool> replying{false};
  server.app.on('L') = [&](Request& request) {
    long_begin();
    replying = true;
    while (!submitted) std::this_thread::yield();
    request.reply->append(std::string(kReplyBytes - 2, 'x'));
  };
  server.start();
  const uint64_t slow = server.occupy("L\n", replying);
  const uint64_t fast = server.connect();
  server.submit(fast, "S\n");
  submitted = true;
  EXPECT_EQ(server.receive(fast, 2), "S\n");
  EXPECT_EQ(server.receive(slow, kReplyBytes).size(), kReplyBytes);
  EXPECT_TRUE(server.stop());
  EXPECT_GE(server.runtime->stats().preemptions, 1u);
}

TEST(Runtime, tells_what_each_worker_runs_also_while_it_is_stuck) {
  LetterServer server("fcfs");
  std::atomic<bool> runs{false};
  std::atomic<bool> over{false};
  server.app.on('L') = [&](Request&) {
    runs = true;
    while (!over) std::this_thread::yield();
  };
  server.start();
  const uint64_t flow = server.occupy("L\n", runs);
  const WorkerActivity stuck = server.runtime->activity().at(0);
  EXPECT_TRUE(stuck.busy);
  EXPECT_FALSE(stuck.asleep);
  EXPECT_EQ(stuck.type, uint32_t{'L'});
  while (server.runtime->activity().at(0).busy_for <= stuck.busy_for) std::this_thread::yield();
  EXPECT_GT(server.runtime->activity().at(0).unpolled, stuck.unpolled);
  over = true;
  EXPECT_EQ(server.receive(flow, 2), "L\n");
  while (!server.runtime->activity().at(0).asleep) std::this_thread::yield();
  EXPECT_FALSE(server.runtime->activity().at(0).busy);
  EXPECT_EQ(server.runtime->activity().at(0).unpolled, Nanos());
}

TEST(Runtime, unknown_policy_and_setting_are_refused_with_one_line) {
  LetterServer server("nosuch");
  LoopbackDatapath datapath({}, server.app);
  auto unknown = Runtime::create(server.options, datapath, server.app);
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().find("'nosuch' is not one of fcfs"), std::string::npos);
  server.options.policy = "synergy";
  server.options.policy_settings["quantum_fatcor"] = "2";
  auto setting = Runtime::create(server.options, datapath, server.app);
  ASSERT_FALSE(setting.ok());
  EXPECT_NE(setting.error().find("quantum_fatcor"), std::string::npos);
}

std::string letter(uint32_t type) { return std::string(1, static_cast<char>(type)); }

TEST(Runtime, tells_the_reservation_that_darc_holds) {
  LetterServer server("darc", 2);
  server.options.policy_settings = {{"window", "40"}, {"check", "1us"}};
  server.app.on('2') = [](Request&) {
    for (int i = 0; i < 20'000; ++i) checkpoint();
  };
  server.start();
  const auto told = [&] { return plan_text(*server.runtime, {letter, 256}); };
  EXPECT_TRUE(told().starts_with("until 40 requests are done all of them wait in one queue"));
  const uint64_t flow = server.connect();
  std::string text = told();
  while (text.starts_with("until")) {
    server.call(flow, "1\n");
    server.call(flow, "2\n");
    text = told();
  }
  // Which of the two owns what is for the clock of a busy machine to say.
  for (const char* part : {"1 (group ", ", waits in queue typed 49\n", "2 (group ",
                           ", waits in queue typed 50\n",
                           "other types are for worker 1 (the spillway)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  const auto lines = scheduler_lines(*server.runtime, {letter, 256});
  EXPECT_EQ(lines.back().first, "plan_3");
  EXPECT_TRUE(server.stop());
}

TEST(Runtime, a_policy_without_a_plan_says_so) {
  LetterServer server("fcfs");
  server.start();
  EXPECT_EQ(plan_text(*server.runtime, {letter, 256}), "the policy fcfs has no plan\n");
  EXPECT_TRUE(server.stop());
}

// A health check is short and rare: it is no type of requests to reserve a worker for.
TEST(Runtime, policies_learn_nothing_from_the_control_plane) {
  LetterServer server("darc");
  server.options.policy_settings = {{"window", "20"}, {"check", "100us"}};
  server.start();
  const uint64_t flow = server.connect();
  const auto plan = [&] { return server.runtime->explain_policy(letter, 256); };
  while (plan()[0].starts_with("until")) {
    server.call(flow, "1\n");
    server.call(flow, "C\n");
  }
  ASSERT_EQ(plan().size(), 2u);
  EXPECT_TRUE(plan()[0].starts_with("1 ")) << plan()[0];
  EXPECT_TRUE(plan()[1].starts_with("other types")) << plan()[1];
  EXPECT_GT(server.runtime->finished(WorkerId{0}, 'C'), 0u);
}

}  // namespace
}  // namespace rubato
