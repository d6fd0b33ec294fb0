// SPDX-License-Identifier: Apache-2.0
//
// Requests whose reply is not wanted any more. The handlers spin until a checkpoint ends them: a
// test whose request is not told to end does not end.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "mechanism/clock/clock.h"
#include "runtime/testing/letter_app.h"
#include "runtime/waiting.h"

namespace rubato {
namespace {

using testing::LetterServer;

class Cancellation : public ::testing::TestWithParam<const char*> {
 protected:
  Cancellation() : server_(GetParam()) {}

  // 'L': runs until it is told to end.
  void serve_endless() {
    server_.app.on('L') = [this](Request& request) {
      runs_ = true;
      while (!checkpoint()) ++rounds_;
      offered_ = request.refusal;
      ended_ = true;
    };
  }
  static void wait_for(const std::atomic<bool>& flag) {
    while (!flag) std::this_thread::yield();
  }
  RuntimeStats stats() const { return server_.runtime->stats(); }
  uint64_t refused_for(Refusal why) const {
    const auto& by_class = stats().refusals[static_cast<size_t>(why)];
    return by_class[0] + by_class[1];
  }

  LetterServer server_;
  std::atomic<bool> runs_{false};
  std::atomic<bool> ended_{false};
  std::atomic<Refusal> offered_{Refusal::kFull};
  std::atomic<uint64_t> rounds_{0};
};

INSTANTIATE_TEST_SUITE_P(, Cancellation, ::testing::Values("fcfs", "synergy"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_P(Cancellation, a_request_whose_client_is_gone_ends_at_a_checkpoint) {
  serve_endless();
  server_.start();
  server_.datapath->forget(server_.occupy("L\n", runs_));
  wait_for(ended_);
  EXPECT_EQ(offered_, Refusal::kAbandoned);
  EXPECT_TRUE(server_.stop());
  EXPECT_EQ(stats().cancelled, 1u);
  EXPECT_EQ(stats().requests, 1u);
}

TEST_P(Cancellation, a_request_whose_connection_is_closed_here_ends_too) {
  serve_endless();
  server_.start();
  EXPECT_TRUE(server_.datapath->close_flow(server_.occupy("L\n", runs_)));
  wait_for(ended_);
  EXPECT_EQ(offered_, Refusal::kAbandoned);
}

TEST_P(Cancellation, who_waits_for_work_on_another_thread_ends_when_the_client_goes) {
  const std::atomic<bool> never{false};
  server_.app.on('L') = [&](Request&) {
    runs_ = true;
    ended_ = !rubato::wait_for(never);
  };
  server_.start();
  server_.datapath->forget(server_.occupy("L\n", runs_));
  wait_for(ended_);
  EXPECT_TRUE(server_.stop());
  EXPECT_EQ(stats().cancelled, 1u);
}

TEST_P(Cancellation, who_has_only_sent_its_last_byte_still_gets_its_reply) {
  std::atomic<bool> release{false};
  std::atomic<bool> was_cancelled{false};
  server_.app.on('L') = [&](Request&) {
    runs_ = true;
    while (!release) was_cancelled = was_cancelled || checkpoint();
    for (int i = 0; i < 10'000; ++i) was_cancelled = was_cancelled || checkpoint();
  };
  server_.start();
  const uint64_t flow = server_.occupy("L\n", runs_);
  EXPECT_TRUE(server_.datapath->finish_sending(flow));
  release = true;
  EXPECT_EQ(server_.receive(flow, 2), "L\n");
  EXPECT_FALSE(was_cancelled);
  EXPECT_EQ(stats().cancelled, 0u);
}

TEST_P(Cancellation, who_has_sent_its_last_byte_is_not_served_for_long) {
  server_.options.half_closed_limit = Nanos::millis(20);
  serve_endless();
  server_.start();
  EXPECT_TRUE(server_.datapath->finish_sending(server_.occupy("L\n", runs_)));
  wait_for(ended_);
  EXPECT_EQ(offered_, Refusal::kAbandoned);
  EXPECT_TRUE(server_.stop());
  EXPECT_EQ(stats().cancelled, 1u);
}

TEST_P(Cancellation, who_has_sent_its_last_byte_is_not_waited_for_long) {
  server_.options.half_closed_limit = Nanos::millis(20);
  server_.app.on('L') = [&](Request&) {
    runs_ = true;
    ended_ = waiting::Semaphore().acquire({}) == Wake::kCancelled;
  };
  server_.start();
  EXPECT_TRUE(server_.datapath->finish_sending(server_.occupy("L\n", runs_)));
  wait_for(ended_);
  EXPECT_TRUE(server_.stop());
}

TEST_P(Cancellation, who_has_sent_its_last_byte_is_waited_for_a_while) {
  server_.options.half_closed_limit = Nanos::seconds(3600);
  server_.app.on('L') = [&](Request&) {
    runs_ = true;
    const WaitLimit limit{.deadline = now() + Nanos::millis(50)};
    ended_ = waiting::Semaphore().acquire(limit) == Wake::kTimeout;
  };
  server_.start();
  const uint64_t flow = server_.occupy("L\n", runs_);
  EXPECT_TRUE(server_.datapath->finish_sending(flow));
  EXPECT_EQ(server_.receive(flow, 2), "L\n");
  EXPECT_TRUE(ended_);
}

TEST_P(Cancellation, what_waits_when_its_client_goes_is_not_run) {
  std::atomic<bool> release{false};
  std::atomic<bool> wasted{false};
  server_.app.on('L') = [&](Request&) {
    const NoPreempt alone;
    runs_ = true;
    wait_for(release);
  };
  server_.app.on('S') = [&](Request&) { wasted = true; };
  server_.start();
  const uint64_t occupied = server_.occupy("L\n", runs_);
  const uint64_t gone = server_.connect();
  server_.submit(gone, "S\n");
  server_.datapath->forget(gone);
  release = true;
  EXPECT_EQ(server_.receive(occupied, 2), "L\n");
  EXPECT_TRUE(server_.stop());
  EXPECT_FALSE(wasted);
}

TEST_P(Cancellation, a_non_preemptible_region_is_not_cancelled_before_its_end) {
  std::atomic<bool> cancelled_inside{false};
  std::atomic<bool> gone{false};
  server_.app.on('L') = [&](Request&) {
    runs_ = true;
    {
      const NoPreempt section;
      wait_for(gone);
      for (int i = 0; i < 10'000; ++i) cancelled_inside = cancelled_inside || checkpoint();
    }
    while (!checkpoint()) {
    }
    ended_ = true;
  };
  server_.start();
  server_.datapath->forget(server_.occupy("L\n", runs_));
  gone = true;
  wait_for(ended_);
  EXPECT_FALSE(cancelled_inside);
}

TEST_P(Cancellation, a_stop_does_not_wait_for_clients_that_have_sent_their_last_byte) {
  server_.options.drain_limit = Nanos::seconds(3'600);
  server_.options.half_closed_limit = Nanos::seconds(1);
  serve_endless();
  server_.start();
  server_.datapath->finish_sending(server_.occupy("L\n", runs_));
  EXPECT_TRUE(server_.stop());
  EXPECT_TRUE(ended_);
}

TEST_P(Cancellation, past_the_drain_limit_requests_are_told_to_end) {
  server_.options.drain_limit = Nanos::millis(20);
  serve_endless();
  server_.start();
  server_.occupy("L\n", runs_);
  EXPECT_FALSE(server_.stop());
  EXPECT_TRUE(ended_);
}

}  // namespace
}  // namespace rubato
