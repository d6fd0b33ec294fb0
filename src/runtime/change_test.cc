// SPDX-License-Identifier: Apache-2.0
//
// A runtime whose policy and options change while it serves: no request is lost, doubled or
// refused, flows keep their order, counters go on, and what cannot change says so.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "policy/testing/replay.h"
#include "policy/testing/seed.h"
#include "runtime/testing/letter_app.h"
#include "runtime/testing/live_policies.h"

namespace rubato {
namespace {

using testing::LetterServer;

void wait_for_changes(const LetterServer& server, uint64_t changes) {
  while (server.runtime->stats().changes < changes) std::this_thread::yield();
}

std::string complaint(LetterServer& server, const SchedulerOptions& options) {
  const Status changed = server.runtime->change(options);
  return changed.ok() ? "" : changed.error();
}

TEST(Change, serves_by_the_next_policy_and_keeps_its_counters) {
  LetterServer server("fcfs", 2);
  server.start();
  const uint64_t flow = server.connect();
  EXPECT_EQ(server.call(flow, "S1\n"), "S1\n");
  SchedulerOptions options = server.runtime->scheduler_options();
  options.policy = "synergy";
  ASSERT_EQ(complaint(server, options), "");
  wait_for_changes(server, 1);
  EXPECT_EQ(server.runtime->options().policy, "synergy");
  EXPECT_EQ(server.call(flow, "S2\n"), "S2\n");
  EXPECT_EQ(server.runtime->stats().requests, 2u);
  EXPECT_EQ(server.runtime->latency('S').count(), 2u);
  EXPECT_TRUE(server.stop());
}

TEST(Change, settings_change_as_the_policy_does) {
  LetterServer server("synergy");
  server.start();
  SchedulerOptions options = server.runtime->scheduler_options();
  options.policy_settings["quantum_initial"] = "50us";
  ASSERT_EQ(complaint(server, options), "");
  wait_for_changes(server, 1);
  EXPECT_EQ(server.runtime->options().policy_settings.at("quantum_initial"), "50us");
  EXPECT_EQ(server.call(server.connect(), "S\n"), "S\n");
}

TEST(Change, nothing_changes_without_a_difference) {
  LetterServer server("synergy");
  server.start();
  SchedulerOptions options = server.runtime->scheduler_options();
  options.drain_limit = Nanos::millis(77);
  ASSERT_EQ(complaint(server, options), "");
  EXPECT_EQ(server.runtime->settings().drain_limit(), Nanos::millis(77));
  EXPECT_EQ(server.call(server.connect(), "S\n"), "S\n");
  EXPECT_EQ(server.runtime->stats().changes, 0u);
}

TEST(Change, is_refused_with_a_line_for_what_takes_a_restart_or_does_not_fit) {
  LetterServer server("synergy");
  server.start();
  SchedulerOptions options = server.runtime->scheduler_options();
  options.workers = 3;
  EXPECT_EQ(complaint(server, options), "workers: takes a restart");
  options = server.runtime->scheduler_options();
  options.overload = Overload::kCredits;
  EXPECT_EQ(complaint(server, options), "overload: takes a restart");
  options = server.runtime->scheduler_options();
  options.policy = "nanopu";
  EXPECT_NE(complaint(server, options).find("simulated only"), std::string::npos);
  options.policy = "fcfs";
  options.policy_settings["quantum"] = "1us";
  EXPECT_NE(complaint(server, options).find("quantum"), std::string::npos);
  EXPECT_EQ(server.call(server.connect(), "S\n"), "S\n");
  EXPECT_EQ(server.runtime->options().policy, "synergy");
}

TEST(Change, leaves_what_a_manager_of_cores_goes_by) {
  LetterServer server("synergy", 2);
  server.options.cores = "reactive";
  server.options.cores_managed = true;
  server.start();
  const std::string why =
      ": the manager of cores goes by what the server started with: takes a restart";
  SchedulerOptions options = server.runtime->scheduler_options();
  options.cores = "adaptive";
  EXPECT_EQ(complaint(server, options), "cores" + why);
  options = server.runtime->scheduler_options();
  options.cores_settings["time_scale"] = "3";
  EXPECT_EQ(complaint(server, options), "cores_set" + why);
  options = server.runtime->scheduler_options();
  options.guaranteed_cores = 0;
  EXPECT_EQ(complaint(server, options), "guaranteed_cores" + why);
  options = server.runtime->scheduler_options();
  options.policy = "fcfs";
  EXPECT_EQ(complaint(server, options), "");
  wait_for_changes(server, 1);
  EXPECT_EQ(server.runtime->options().cores, "reactive");
}

TEST(Change, waits_for_what_runs_while_other_requests_wait_for_it) {
  LetterServer server("synergy", 2);
  std::atomic<bool> runs{false};
  std::atomic<bool> goes_on{true};
  server.app.on('L') = [&](Request&) {
    runs = true;
    testing::checkpoints_until([&] { return !goes_on; });
  };
  server.start();
  const uint64_t slow = server.occupy("L\n", runs);
  SchedulerOptions options = server.runtime->scheduler_options();
  options.policy = "ps";
  ASSERT_EQ(complaint(server, options), "");
  const uint64_t flow = server.connect();
  server.submit(flow, "S\n");
  EXPECT_EQ(server.runtime->stats().changes, 0u);
  goes_on = false;
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_EQ(server.receive(flow, 2), "S\n");
  wait_for_changes(server, 1);
  EXPECT_TRUE(server.stop());
}

TEST(Change, is_given_up_when_a_request_takes_too_long) {
  LetterServer server("synergy");
  std::atomic<bool> runs{false};
  std::atomic<bool> goes_on{true};
  server.app.on('L') = [&](Request&) {
    runs = true;
    testing::checkpoints_until([&] { return !goes_on; });
  };
  server.start();
  const uint64_t slow = server.occupy("L\n", runs);
  SchedulerOptions options = server.runtime->scheduler_options();
  options.policy = "fcfs";
  ASSERT_EQ(complaint(server, options), "");
  while (server.runtime->stats().changes_given_up == 0) std::this_thread::yield();
  EXPECT_EQ(server.call(server.connect(), "S\n"), "S\n");
  EXPECT_EQ(server.runtime->options().policy, "synergy");
  goes_on = false;
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  ASSERT_EQ(complaint(server, options), "");
  wait_for_changes(server, 1);
  EXPECT_EQ(server.runtime->options().policy, "fcfs");
}

TEST(Change, a_stop_during_a_change_drains) {
  LetterServer server("synergy", 2);
  std::atomic<bool> runs{false};
  std::atomic<bool> goes_on{true};
  server.app.on('L') = [&](Request&) {
    runs = true;
    testing::checkpoints_until([&] { return !goes_on; });
  };
  server.start();
  const uint64_t slow = server.occupy("L\n", runs);
  SchedulerOptions options = server.runtime->scheduler_options();
  options.policy = "fcfs";
  ASSERT_EQ(complaint(server, options), "");
  server.runtime->stop();
  EXPECT_FALSE(server.runtime->serving());
  EXPECT_EQ(complaint(server, options), "policy: the runtime stops");
  goes_on = false;
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_TRUE(server.stop());
  EXPECT_EQ(server.runtime->stats().changes, 0u);
}

// A handler that changes the policy which runs it has its reply first.
TEST(Change, a_handler_may_change_the_runtime_that_runs_it) {
  LetterServer server("fcfs");
  server.app.on('P') = [&](Request&) {
    SchedulerOptions options = server.runtime->scheduler_options();
    options.policy = "las";
    EXPECT_EQ(complaint(server, options), "");
  };
  server.start();
  const uint64_t flow = server.connect();
  EXPECT_EQ(server.call(flow, "P\n"), "P\n");
  EXPECT_EQ(server.call(flow, "S\n"), "S\n");
  wait_for_changes(server, 1);
  EXPECT_EQ(server.runtime->options().policy, "las");
}

// Every live policy follows every other under load, with settings, clocks and allocators of cores
// at random.
TEST(Change, loses_nothing_between_any_two_policies_under_load) {
  const uint64_t seed = testing::test_seed(20'261'125);
  const testing::Replay replay(seed, "changes");
  constexpr uint32_t kWorkers = 3;
  constexpr int kFlows = 8;
  LetterServer server("fcfs", kWorkers);
  server.options.max_fibers = 64;
  server.app.on('L') = [](Request&) {
    for (int i = 0; i < 500; ++i) checkpoint();
  };
  server.start();
  std::atomic<bool> over{false};
  std::atomic<uint64_t> sent{0};
  std::thread clients([&] {
    Prng prng(seed);
    std::vector<uint64_t> flows;
    for (uint32_t f = 0; f < kFlows; ++f) flows.push_back(server.connect(f % kWorkers));
    for (int round = 0; !over; ++round) {
      std::vector<std::string> expected(kFlows);
      for (size_t f = 0; f < kFlows; ++f) {
        for (uint32_t i = prng.below(6); i > 0; --i, ++sent) {
          const char letter = prng.below(8) == 0 ? 'L' : prng.below(8) == 0 ? 'C' : 'S';
          expected[f] += letter + std::to_string(round) + "\n";
        }
        if (!expected[f].empty()) server.submit(flows[f], expected[f]);
      }
      for (size_t f = 0; f < kFlows; ++f) {
        ASSERT_EQ(server.receive(flows[f], expected[f].size()), expected[f]);
      }
    }
  });
  Prng prng(seed + 1);
  uint64_t changes = 0;
  for (int round = 0; round < 2; ++round) {
    for (const testing::LivePolicy& policy : testing::all_live()) {
      SchedulerOptions options = server.runtime->scheduler_options();
      options.policy = policy.name;
      options.policy_settings.clear();
      for (const auto& [name, value] : policy.draw_settings(prng)) {
        options.policy_settings[name] = value;
      }
      options.preemption_clock =
          prng.below(2) == 0 ? PreemptionClock::kSelf : PreemptionClock::kTimerCore;
      options.cores = prng.below(3) == 0 ? "reactive" : SchedulerOptions::kAdaptiveCores;
      if (options.policy == server.runtime->options().policy) continue;
      EXPECT_EQ(complaint(server, options), "") << options.policy;
      if (!HasFailure()) wait_for_changes(server, ++changes);
      const uint64_t before = sent;
      while (sent < before + 200) std::this_thread::yield();
    }
  }
  over = true;
  clients.join();
  EXPECT_TRUE(server.stop());
  const RuntimeStats stats = server.runtime->stats();
  EXPECT_EQ(stats.requests, sent);
  EXPECT_EQ(stats.refused, 0u);
  EXPECT_EQ(stats.changes_given_up, 0u);
  EXPECT_EQ(stats.preemptions, stats.resumed);
}

}  // namespace
}  // namespace rubato
