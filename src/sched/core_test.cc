// SPDX-License-Identifier: Apache-2.0
#include "sched/core.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

#include "overload/limiter.h"
#include "policy/ps.h"
#include "policy/testing/script_host.h"

namespace rubato::sched {
namespace {

using rubato::testing::ScriptHost;

struct ScriptedRequest : RequestState {
  bool is_abandoned = false;
  bool is_late = false;
};

// What the test sets, and what became of the requests.
struct Script {
  overload::Limiter<overload::OneThread>* limiter = nullptr;
  ScriptHost<Ps> host{1};
  std::vector<Refusal> refused;
  int cancelled = 0;
  int replied = 0;
  int renewed = 0;
};

// One worker; its requests come one by one.
struct ScriptedPlatform {
  using Request = ScriptedRequest;
  static constexpr bool kOutlivesReply = true;
  static constexpr bool kHasConnections = false;
  static constexpr bool kHasGroups = false;

  static WorkerId me() { return {0}; }
  auto& host() const { return script.host; }
  Instant now() const { return script.host.now(); }
  Instant look_at_clock() const { return now(); }
  static size_t payload_bytes(const Request&) { return 0; }
  static bool is_abandoned(const Request& request) { return request.is_abandoned; }
  static bool admits(const Request& request) { return !request.is_late; }
  using Limiter = overload::Limiter<overload::OneThread>;
  Limiter* limiter() const { return script.limiter; }
  bool enqueue(QueueRef q, Request& request) { return host().put(q, &request); }
  bool put_back(QueueRef q, Request& request) { return host().put(q, &request); }
  static void take_in() {}
  static void help() {}
  Replied<Request> reply(Request&) {
    ++script.replied;
    return {};
  }
  Request* refuse(Request& request) {
    script.refused.push_back(request.refusal);
    return nullptr;
  }
  static void take_up(Request&) {}
  static void arm(const Request&, Nanos) {}
  void renew(const Request&, Nanos) { ++script.renewed; }
  static void disarm() {}
  Instant begin(Request&) const { return now(); }
  static bool stops() { return false; }
  void begin_look() {}
  void end_look(bool) {}
  static int64_t suspended() { return 0; }
  static void note_arrived(const Request&) {}
  static void note_finished(const Request&) {}
  static void note_started(const Request&) {}
  void note_cancelled(const Request&) { ++script.cancelled; }
  static void note_waited(JobClass, Nanos) {}
  static void note_none_waits() {}
  static void note_long(Classify) {}
  static void note_refused(const Request&) {}
  static void note_overloaded(bool) {}

  Script& script;
};

class CoreTest : public ::testing::Test {
 protected:
  using Core = sched::Core<Ps, ScriptedPlatform>;

  static constexpr Nanos kWhile = Nanos::micros(10);

  // Has come, and its turn too.
  bool starts(ScriptedRequest& request, Core& core) {
    core.admit(request);
    EXPECT_EQ(core.next(), &request);
    return core.start(request);
  }
  bool starts(ScriptedRequest& request) { return starts(request, core_); }
  void pass(Nanos time) { script_.host.set_now(script_.host.now() + time); }

  Script script_;
  const Ps policy_{{}};
  Core core_{policy_, {}, ScriptedPlatform{script_}};
  ScriptedRequest request_;
};

TEST_F(CoreTest, what_nobody_wants_when_its_turn_comes_is_refused) {
  core_.admit(request_);
  request_.is_abandoned = true;
  EXPECT_FALSE(core_.start(*core_.next()));
  EXPECT_EQ(script_.refused, std::vector{Refusal::kAbandoned});
  EXPECT_FALSE(request_.has_started);
}

TEST_F(CoreTest, what_is_past_its_deadline_when_its_turn_comes_is_refused) {
  request_.deadline = script_.host.now() + kWhile;
  ScriptedRequest in_time = request_;
  EXPECT_TRUE(starts(in_time));
  pass(kWhile);
  EXPECT_FALSE(starts(request_));
  EXPECT_EQ(script_.refused, std::vector{Refusal::kExpired});
}

TEST_F(CoreTest, who_gives_credits_judges_the_wait_of_what_came_with_one) {
  request_.is_late = true;
  ScriptedRequest credited = request_;
  credited.credited = true;
  EXPECT_TRUE(starts(request_));
  EXPECT_FALSE(starts(credited));
  EXPECT_EQ(script_.refused, std::vector{Refusal::kDelay});
}

TEST_F(CoreTest, a_deadline_that_is_only_an_order_refuses_and_cancels_nobody) {
  Core core(policy_, {.classify = Classify::kAge, .refusal_rule = {}, .firm_deadlines = false},
            ScriptedPlatform{script_});
  request_.deadline = script_.host.now();
  pass(kWhile);
  EXPECT_TRUE(starts(request_, core));
  EXPECT_FALSE(core.cancels(request_));
  EXPECT_TRUE(script_.refused.empty());
}

TEST_F(CoreTest, a_running_request_is_cancelled_once_and_for_good) {
  EXPECT_TRUE(starts(request_));
  EXPECT_FALSE(core_.cancels(request_));
  request_.is_abandoned = true;
  EXPECT_TRUE(core_.cancels(request_));
  EXPECT_EQ(request_.refusal, Refusal::kAbandoned);
  request_.is_abandoned = false;
  EXPECT_TRUE(core_.cancels(request_));
  EXPECT_EQ(script_.cancelled, 1);
  core_.finish(request_, kWhile, Nanos());
  EXPECT_EQ(script_.replied, 1);
}

TEST_F(CoreTest, a_deadline_cancels_what_runs) {
  request_.deadline = script_.host.now() + kWhile;
  EXPECT_TRUE(starts(request_));
  EXPECT_FALSE(core_.cancels(request_));
  pass(kWhile);
  EXPECT_TRUE(core_.cancels(request_));
  EXPECT_EQ(request_.refusal, Refusal::kExpired);
}

TEST_F(CoreTest, what_is_cancelled_gets_one_slice_to_end_in) {
  EXPECT_TRUE(starts(request_));
  ScriptedRequest waits;
  core_.admit(waits);
  request_.is_abandoned = true;
  EXPECT_FALSE(core_.expire(request_, kWhile));
  EXPECT_EQ(script_.cancelled, 1);
  EXPECT_TRUE(core_.expire(request_, kWhile * 2)) << "it has not ended, and another waits";
}

TEST_F(CoreTest, what_was_preempted_before_it_was_abandoned_goes_on_to_end) {
  EXPECT_TRUE(starts(request_));
  ScriptedRequest waits;
  core_.admit(waits);
  EXPECT_TRUE(core_.expire(request_, kWhile));
  EXPECT_TRUE(core_.requeue(request_).has_value());
  request_.is_abandoned = true;
  EXPECT_TRUE(core_.start(*core_.next()));
  EXPECT_EQ(core_.next(), &request_);
  EXPECT_TRUE(core_.start(request_)) << "what has started is not refused";
  EXPECT_TRUE(core_.cancels(request_));
}

TEST_F(CoreTest, what_has_waited_for_something_takes_its_turn_again_and_is_not_refused) {
  EXPECT_TRUE(starts(request_));
  ScriptedRequest came_before;
  core_.admit(came_before);
  request_.is_late = true;
  core_.ready(request_);
  EXPECT_EQ(core_.next(), &came_before);
  EXPECT_EQ(core_.next(), &request_);
  pass(kWhile);
  EXPECT_TRUE(core_.start(request_));
  EXPECT_EQ(request_.preemptions, 0u);
  EXPECT_TRUE(script_.refused.empty());
}

// ---- Limits: three requests inside -----------------------------------------------------------

class LimitedCoreTest : public CoreTest {
 protected:
  LimitedCoreTest() { script_.limiter = &limiter_; }
  // The core begins when the limiter is there.
  Core& core() {
    if (!limited_) limited_.emplace(policy_, CoreOptions{}, ScriptedPlatform{script_});
    return *limited_;
  }
  void fill() {
    for (ScriptedRequest& request : inside_) core().admit(request);
    EXPECT_TRUE(script_.refused.empty());
  }

  overload::Limiter<overload::OneThread> limiter_{overload::GradientSettings{}, 1, 1};
  std::array<ScriptedRequest, 3> inside_;

 private:
  std::optional<Core> limited_;
};

TEST_F(LimitedCoreTest, what_comes_beyond_the_limit_is_refused_for_that) {
  fill();
  core().admit(request_);
  EXPECT_EQ(script_.refused, std::vector{Refusal::kLimit});
  EXPECT_EQ(limiter_.inside(), 3);
}

TEST_F(LimitedCoreTest, what_is_done_makes_room) {
  fill();
  EXPECT_TRUE(core().start(*core().next()));
  core().finish(inside_[0], kWhile, Nanos());
  core().admit(request_);
  EXPECT_TRUE(script_.refused.empty());
  EXPECT_EQ(limiter_.inside(), 3);
}

TEST_F(LimitedCoreTest, what_is_refused_at_its_turn_makes_room) {
  fill();
  inside_[0].is_abandoned = true;
  EXPECT_FALSE(core().start(*core().next()));
  EXPECT_EQ(script_.refused, std::vector{Refusal::kAbandoned});
  EXPECT_EQ(limiter_.inside(), 2);
}

TEST_F(LimitedCoreTest, the_control_plane_is_neither_limited_nor_counted) {
  fill();
  request_.group = kControlGroup;
  core().admit(request_);
  EXPECT_TRUE(script_.refused.empty());
  EXPECT_EQ(limiter_.inside(), 3);
}

TEST_F(LimitedCoreTest, what_is_preempted_and_goes_on_counts_once) {
  fill();
  EXPECT_TRUE(core().start(*core().next()));
  EXPECT_TRUE(core().expire(inside_[0], kWhile));
  EXPECT_TRUE(core().requeue(inside_[0]).has_value());
  for (int i = 0; i < 2; ++i) core().start(*core().next());
  EXPECT_TRUE(core().start(*core().next()));
  EXPECT_EQ(limiter_.inside(), 3);
}

}  // namespace
}  // namespace rubato::sched
