// SPDX-License-Identifier: Apache-2.0
//
// The state that a request keeps when it is moved at checkpoints: fiber-locals, errno, the rounding
// mode; and how requests that wait for a lock give way to its holder. Under every way to preempt.
#include "runtime/fiber_local.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cfenv>
#include <string>
#include <thread>
#include <vector>

#include "mechanism/preempt/preempt_disable.h"
#include "runtime/testing/letter_app.h"

namespace rubato {
namespace {

using testing::checkpoints_until;
using testing::LetterServer;

std::atomic<int> g_alive{0};

// A fiber-local number without the public header, which src does not use.
struct Number {
  Number() { ++g_alive; }
  ~Number() { --g_alive; }
  int value = 0;
};

int& number(uint32_t key) {
  if (fiber_local(key) == nullptr) {
    set_fiber_local(key, new Number, [](void* made) { delete static_cast<Number*>(made); });
  }
  return static_cast<Number*>(fiber_local(key))->value;
}

TEST(FiberLocals, values_are_destroyed_latest_key_first_and_once) {
  static std::string order;
  order.clear();
  FiberLocals locals;
  EXPECT_EQ(locals.get(3), nullptr);
  static char first = 'a';
  static char second = 'b';
  const auto note = [](void* value) { order += *static_cast<char*>(value); };
  locals.set(1, &first, note);
  locals.set(4, &second, note);
  EXPECT_EQ(locals.get(1), &first);
  EXPECT_EQ(locals.get(0), nullptr);
  locals.clear();
  EXPECT_EQ(order, "ba");
  EXPECT_TRUE(locals.empty());
  locals.clear();
  EXPECT_EQ(order, "ba");
}

TEST(FiberLocals, threads_without_requests_have_their_own) {
  const uint32_t key = new_fiber_local_key();
  number(key) = 5;
  std::thread([key] {
    EXPECT_EQ(number(key), 0);
    number(key) = 6;
    EXPECT_EQ(g_alive, 2);
  }).join();
  EXPECT_EQ(number(key), 5);
  EXPECT_EQ(g_alive, 1);
}

// Under checkpoints the address of errno belongs to the thread, and the compiler would keep it.
[[gnu::noinline]] int error_number() {
  asm volatile("");
  return errno;
}
[[gnu::noinline]] void set_error_number(int value) {
  asm volatile("");
  errno = value;
}

class Moved : public ::testing::TestWithParam<PreemptMechanism> {
 protected:
  void SetUp() override {
    if (const Status has = available(GetParam()); !has.ok()) GTEST_SKIP() << has.error();
  }
  void TearDown() override { set_async_signal_unsafe_predicate(nullptr); }
  // Interrupts are deferred to checkpoints: no other code here may be left half-way. Making a
  // runtime may set a predicate of its own.
  static void start(LetterServer& server) {
    server.start();
    set_async_signal_unsafe_predicate([](uintptr_t) { return true; });
  }
  void prepare(LetterServer& server) const {
    server.options.preempt = GetParam();
    server.options.policy_settings = {{"quantum", "200us"}};
  }
};

INSTANTIATE_TEST_SUITE_P(By, Moved,
                         ::testing::Values(PreemptMechanism::kCheckpoint, PreemptMechanism::kSignal,
                                           PreemptMechanism::kTimer),
                         [](const auto& by) { return std::string(to_string(by.param)); });

TEST_P(Moved, requests_have_their_own_values_which_end_with_them) {
  const int before = g_alive;
  LetterServer server("ps", 2);
  prepare(server);
  const uint32_t key = new_fiber_local_key();
  std::atomic<int> numbers{0};
  std::atomic<int> fresh{0};
  server.app.on('F') = [&](Request& request) {
    if (number(key) == 0) ++fresh;
    const int mine = ++numbers;
    number(key) = mine;
    int* const address = &number(key);
    checkpoints_until([&] { return request.preemptions >= 5 || numbers >= 6; });
    EXPECT_EQ(number(key), mine);
    EXPECT_EQ(&number(key), address);
  };
  start(server);
  for (int round = 0; round < 2; ++round) {
    numbers = 0;
    std::vector<uint64_t> flows;
    for (uint32_t i = 0; i < 6; ++i) flows.push_back(server.connect(i % 2));
    for (const uint64_t flow : flows) server.submit(flow, "F\n");
    for (const uint64_t flow : flows) EXPECT_EQ(server.receive(flow, 2), "F\n");
  }
  EXPECT_EQ(fresh, 12);
  EXPECT_TRUE(server.stop());
  EXPECT_EQ(g_alive, before);
}

TEST_P(Moved, errno_and_rounding_mode_are_the_requests_own) {
  LetterServer server("ps", 2);
  prepare(server);
  std::atomic<int> arrived{0};
  server.app.on('E') = [&](Request& request) {
    const int mine = ++arrived;
    const int mode = mine % 2 == 0 ? FE_UPWARD : FE_DOWNWARD;
    std::fesetround(mode);
    set_error_number(mine);
    const uint32_t before = request.preemptions;
    // One checkpoint at a time: what is between them is allowed to change errno, they are not.
    while (request.preemptions < before + 5 && arrived < 4) {
      checkpoint();
      asm volatile("");
    }
    for (int i = 0; i < 1000; ++i) checkpoint();
    EXPECT_EQ(error_number(), mine);
    EXPECT_EQ(std::fegetround(), mode);
    std::fesetround(FE_TONEAREST);
  };
  start(server);
  std::vector<uint64_t> flows;
  for (uint32_t i = 0; i < 4; ++i) flows.push_back(server.connect(i % 2));
  for (const uint64_t flow : flows) server.submit(flow, "E\n");
  for (const uint64_t flow : flows) EXPECT_EQ(server.receive(flow, 2), "E\n");
}

// A lock that its holder keeps while it is preempted, without a non-preemptible region: only
// yielding helps, as there is one worker.
TEST_P(Moved, who_finds_a_lock_taken_lets_its_holder_run) {
  LetterServer server("ps");
  prepare(server);
  std::atomic<bool> locked{false};
  std::atomic<int> waiting{0};
  server.app.on('H') = [&](Request&) {
    locked = true;
    checkpoints_until([&] { return waiting == 3; });
    locked = false;
  };
  server.app.on('W') = [&](Request&) {
    const PreemptDisableGuard nested;
    ++waiting;
    while (locked.exchange(true)) {
      EXPECT_TRUE(yield_for_lock());
      EXPECT_EQ(preempt_disable_depth(), 1u);
    }
    locked = false;
  };
  start(server);
  const uint64_t holder = server.occupy("H\n", locked);
  std::vector<uint64_t> flows;
  for (int i = 0; i < 3; ++i) flows.push_back(server.connect());
  for (const uint64_t flow : flows) server.submit(flow, "W\n");
  for (const uint64_t flow : flows) EXPECT_EQ(server.receive(flow, 2), "W\n");
  EXPECT_EQ(server.receive(holder, 2), "H\n");
  EXPECT_TRUE(server.stop());
  EXPECT_GE(server.runtime->stats().lock_yields, 1u);
}

TEST(Preempt, none_lets_requests_run_to_their_end) {
  LetterServer server("ps");
  server.options.preempt = PreemptMechanism::kNone;
  server.options.policy_settings = {{"quantum", "10us"}};
  std::atomic<bool> submitted{false};
  std::atomic<bool> runs{false};
  server.app.on('L') = [&](Request& request) {
    runs = true;
    checkpoints_until([&] { return submitted.load(); });
    for (int i = 0; i < 1'000'000; ++i) checkpoint();
    EXPECT_EQ(request.preemptions, 0u);
  };
  server.start();
  const uint64_t slow = server.occupy("L\n", runs);
  const uint64_t fast = server.connect();
  server.submit(fast, "S\n");
  submitted = true;
  EXPECT_EQ(server.receive(fast, 2), "S\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
}

std::string refusal(const RuntimeOptions& options) {
  testing::LetterApp app;
  LoopbackOptions wire;
  wire.queues = options.workers;
  LoopbackDatapath datapath(wire, app);
  auto made = Runtime::create(options, datapath, app);
  return made.ok() ? "" : made.error();
}

TEST(Preempt, what_cannot_be_done_is_refused_with_its_reason) {
  for (const PreemptMechanism mechanism : kPreemptMechanisms) {
    RuntimeOptions options;
    options.preempt = mechanism;
    const Status has = available(mechanism);
    if (has.ok()) {
      EXPECT_EQ(refusal(options), "");
    } else {
      EXPECT_NE(refusal(options).find(has.error()), std::string::npos);
    }
  }
}

TEST(Preempt, stack_without_room_for_interrupted_state_is_refused) {
  if (!available(PreemptMechanism::kSignal).ok()) GTEST_SKIP();
  RuntimeOptions options;
  options.preempt = PreemptMechanism::kSignal;
  options.stack_bytes = size_t{16} * 1024;
  EXPECT_EQ(refusal(options).rfind("stack: preempt signal needs ", 0), 0u);
  options.preempt = PreemptMechanism::kCheckpoint;
  EXPECT_EQ(refusal(options), "");
}

TEST(Preempt, own_timers_go_with_no_timer_core) {
  if (!available(PreemptMechanism::kTimer).ok()) GTEST_SKIP();
  RuntimeOptions options;
  options.preempt = PreemptMechanism::kTimer;
  options.preemption_clock = PreemptionClock::kTimerCore;
  EXPECT_EQ(refusal(options).rfind("preempt: ", 0), 0u);
}

TEST(Preempt, runtime_says_which_mechanism_auto_took) {
  LetterServer server("synergy");
  server.start();
  EXPECT_EQ(server.runtime->options().preempt, resolve(PreemptMechanism::kAuto));
}

}  // namespace
}  // namespace rubato
