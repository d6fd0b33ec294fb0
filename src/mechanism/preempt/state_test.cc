// SPDX-License-Identifier: Apache-2.0
//
// PreemptState under the model checker, with interrupts that come between any two of the worker's
// accesses and nest; and under stress with real threads and a real signal.
#include "mechanism/preempt/state.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "mechanism/fiber/sanitizer.h"
#include "mechanism/queue/testing/model.h"

namespace rubato {
namespace {

using model::Bounds;
using model::Execution;
using model::Report;

TEST(PreemptState, slice_that_nobody_asked_about_is_not_taken) {
  PreemptState state;
  EXPECT_FALSE(state.take());
  state.start();
  EXPECT_FALSE(state.take());
  EXPECT_EQ(state.interrupt(true), Answer::kNothing);
  EXPECT_EQ(state.interrupt(false), Answer::kNothing);
}

TEST(PreemptState, request_is_answered_once) {
  PreemptState state;
  state.start();
  const PreemptLook seen = state.look();
  EXPECT_TRUE(state.request(seen));
  EXPECT_FALSE(state.request(seen));
  EXPECT_TRUE(state.is_wanted());
  EXPECT_TRUE(state.take());
  EXPECT_FALSE(state.take());
  EXPECT_EQ(state.interrupt(true), Answer::kNothing);
}

TEST(PreemptState, deferred_request_can_be_repeated_and_taken_anywhere) {
  PreemptState state;
  state.start();
  EXPECT_TRUE(state.request(state.look()));
  EXPECT_EQ(state.interrupt(false), Answer::kDefer);
  EXPECT_EQ(state.interrupt(false), Answer::kNothing);
  EXPECT_TRUE(state.request(state.look()));
  EXPECT_EQ(state.interrupt(false), Answer::kDefer);
  EXPECT_TRUE(state.take());
}

TEST(PreemptState, late_interrupt_of_an_old_slice_preempts_nobody) {
  PreemptState state;
  state.start();
  const PreemptLook old = state.look();
  EXPECT_TRUE(state.request(old));
  state.stop();
  EXPECT_EQ(state.interrupt(true), Answer::kNothing);
  state.start();
  EXPECT_EQ(state.interrupt(true), Answer::kNothing);
  EXPECT_FALSE(state.request(old));
  EXPECT_EQ(state.look().phase(), PreemptPhase::kArmed);
}

struct Machine;

// The word in the model; on the worker an interrupt may come before each access.
class InterruptedWord {
 public:
  explicit InterruptedWord(uint64_t value) : word_(value) {}
  uint64_t load(std::memory_order order) const {
    interrupt_point();
    return word_.load(order);
  }
  void store(uint64_t value, std::memory_order order) {
    interrupt_point();
    word_.store(value, order);
  }
  bool compare_exchange_strong(uint64_t& expected, uint64_t desired, std::memory_order success,
                               std::memory_order failure) {
    return word_.compare_exchange_strong(expected, desired, success, failure);
  }

 private:
  static void interrupt_point();
  model::Atomic<uint64_t> word_;
};

constexpr size_t kSlices = 8;
Machine* g_machine = nullptr;  // of the present execution

// A worker like the runtime's, one slice after the other; thread 0 of a scenario.
struct Machine {
  explicit Machine(Execution& of) : run(of) { g_machine = this; }
  ~Machine() { g_machine = nullptr; }

  Execution& run;
  BasicPreemptState<InterruptedWord> state;
  model::Atomic<uint32_t> line;  // an interrupt is on its way
  bool in_application = false;
  bool safe = true;     // true: the code may be left where it is
  uint32_t nested = 0;
  std::array<int, kSlices> requested{};  // by slice, as the sender has it
  std::array<int, kSlices> taken{};

  void handler() {
    ++nested;
    const bool may_leave = in_application && safe;
    const bool was_in_application = std::exchange(in_application, false);
    if (state.interrupt(may_leave) == Answer::kTake) {
      honour();
    } else if (was_in_application) {
      back_to_application();
    }
    --nested;
  }

  // The slice was taken: another one begins.
  void honour() {
    ++taken.at(state.look().slice());
    state.start();
    back_to_application();
  }

  // Answers the interrupts that came while the runtime was at work.
  void back_to_application() {
    in_application = true;
    while (safe && state.is_wanted()) {
      in_application = false;
      if (state.take()) return honour();
      in_application = true;
    }
  }

  void leave_unsafe() {
    safe = true;
    in_application = false;
    back_to_application();
  }

  void deliver() {
    uint32_t one = 1;
    if (!line.compare_exchange_strong(one, 0, std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
      return;
    }
    handler();
  }

  void maybe_interrupt() {
    if (run.running() != 0 || nested > 1) return;
    if (line.load(std::memory_order_relaxed) != 0 && run.choose(2) == 1) deliver();
  }

  void send(bool only_armed) {
    const PreemptLook seen = state.look();
    if (only_armed && seen.phase() != PreemptPhase::kArmed) return;
    if (!state.request(seen)) return;
    if (seen.phase() == PreemptPhase::kArmed) ++requested.at(seen.slice());
    line.store(1, std::memory_order_release);
  }

  void check_each_once() {
    for (size_t slice = 0; slice < kSlices; ++slice) {
      run.expect(requested[slice] <= 1, "a slice was requested twice");
      run.expect(taken[slice] <= requested[slice], "taken without a request, or twice");
    }
  }
};

void InterruptedWord::interrupt_point() {
  if (g_machine != nullptr) g_machine->maybe_interrupt();
}

Bounds within(uint32_t preemptions, uint32_t stale_reads) {
  if (sanitizer::kPresent) preemptions = std::min(preemptions, 1u);
  return {preemptions, stale_reads};
}

template <class Worker>
Report explore(uint32_t sends, Worker&& worker, bool slice_goes_on) {
  return model::explore(within(3, 2), [&, sends, slice_goes_on](Execution& run) {
    auto machine = std::make_shared<Machine>(run);
    run.thread([machine, &worker] { worker(*machine); });
    run.thread([machine, sends] {
      for (uint32_t i = 0; i < sends; ++i) machine->send(i % 2 == 0 && i > 0);
    });
    run.finally([machine, slice_goes_on, &run] {
      machine->deliver();
      machine->check_each_once();
      if (!slice_goes_on) return;
      run.expect(machine->taken == machine->requested, "a preemption was lost");
      run.expect(machine->state.look().phase() == PreemptPhase::kArmed, "left in mid-air");
    });
  });
}

void expect_sound(const Report& report) {
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 100u);
}

TEST(PreemptStateModel, request_to_a_running_slice_is_answered_once) {
  expect_sound(explore(2, [](Machine& worker) {
    worker.state.start();
    worker.back_to_application();
    for (int i = 0; i < 3; ++i) worker.maybe_interrupt();
  }, true));
}

TEST(PreemptStateModel, request_that_meets_unsafe_code_is_honoured_at_its_end) {
  expect_sound(explore(2, [](Machine& worker) {
    worker.state.start();
    worker.back_to_application();
    worker.safe = false;
    worker.maybe_interrupt();
    worker.maybe_interrupt();
    worker.leave_unsafe();
    worker.maybe_interrupt();
  }, true));
}

TEST(PreemptStateModel, end_of_a_slice_races_with_its_request) {
  expect_sound(explore(3, [](Machine& worker) {
    for (int slice = 0; slice < 2; ++slice) {
      worker.state.start();
      worker.back_to_application();
      worker.maybe_interrupt();
      worker.in_application = false;
      worker.state.stop();
    }
  }, false));
}

TEST(PreemptStateModel, checkpoint_and_interrupt_do_not_both_take) {
  expect_sound(explore(2, [](Machine& worker) {
    worker.state.start();
    worker.back_to_application();
    worker.maybe_interrupt();
    worker.in_application = false;
    if (worker.state.take()) worker.honour();
    worker.back_to_application();
    worker.maybe_interrupt();
  }, true));
}

// The checker must notice.
TEST(PreemptStateModel, deferred_request_that_nobody_looks_for_is_lost) {
  const Report report = explore(2, [](Machine& worker) {
    worker.state.start();
    worker.back_to_application();
    worker.safe = false;
    worker.maybe_interrupt();
    worker.safe = true;  // and no check finds what was deferred
    worker.in_application = false;
  }, true);
  EXPECT_NE(report.failure, "");
}

// The real thing: a thread that starts and stops slices, another that requests them and sends a
// signal for each.
struct Victim {
  PreemptState state;
  std::atomic<bool> in_application{false};
  std::atomic<uint64_t> taken{0};
};
Victim* g_victim = nullptr;

void on_signal(int) {
  Victim& victim = *g_victim;
  const bool may_leave = victim.in_application.exchange(false, std::memory_order_relaxed);
  if (victim.state.interrupt(may_leave) == Answer::kTake) {
    victim.taken.fetch_add(1, std::memory_order_relaxed);
    victim.state.start();
  }
  victim.in_application.store(may_leave, std::memory_order_relaxed);
}

void run_victim(Victim& victim, const std::atomic<bool>& done) {
  while (!done.load(std::memory_order_relaxed)) {
    victim.state.start();
    victim.in_application.store(true, std::memory_order_relaxed);
    for (int i = 0; i < 200; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    victim.in_application.store(false, std::memory_order_relaxed);
    if (victim.state.take()) victim.taken.fetch_add(1, std::memory_order_relaxed);
    victim.state.stop();
  }
}

TEST(PreemptStateStress, signals_take_no_slice_that_was_not_requested) {
  // ThreadSanitizer holds signals back until the thread calls into the C library.
  if (sanitizer::kPresent) GTEST_SKIP() << "built with a sanitizer";
  Victim victim;
  g_victim = &victim;
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = &on_signal;
  action.sa_flags = SA_NODEFER | SA_RESTART;
  sigaction(SIGURG, &action, &before);
  std::atomic<bool> done{false};
  std::thread worker([&] { run_victim(victim, done); });
  uint64_t requested = 0;
  for (int i = 0; i < 20'000 || victim.taken.load() == 0; ++i) {
    const PreemptLook seen = victim.state.look();
    if (!victim.state.request(seen)) continue;
    if (seen.phase() == PreemptPhase::kArmed) ++requested;
    pthread_kill(worker.native_handle(), SIGURG);
  }
  done = true;
  worker.join();
  sigaction(SIGURG, &before, nullptr);
  EXPECT_LE(victim.taken.load(), requested);
  EXPECT_GT(victim.taken.load(), 0u);
}

}  // namespace
}  // namespace rubato
