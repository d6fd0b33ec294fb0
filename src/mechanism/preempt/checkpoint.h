// SPDX-License-Identifier: Apache-2.0
//
// checkpoint(): the place where a running request lets itself be preempted. Not taken, it is one
// decrement of a per-thread word and a branch that is predicted not taken. The word counts down to
// the next look at the clock (self-preemption), or is overwritten by the timer core.
//
// The decrement is one instruction on x86-64, so that the compiler cannot keep the address of a
// thread's word across a call that may resume on another thread. A store by the timer core can lose
// against it; the timer core therefore stores again until the worker has answered.
#pragma once

#include <cstdint>
#include <limits>

extern "C" {
// Checkpoints left until the slow path is taken. Written by its thread, and by the timer core
// through the address that the thread has published.
extern thread_local int32_t rubato_checkpoint_budget __attribute__((tls_model("initial-exec")));

// Asks the handler; returns on the same fiber, perhaps much later and on another thread.
void rubato_checkpoint_slow(void);

// The same as an ordinary call, for callers without the inline form.
void rubato_checkpoint(void);
}

namespace rubato {

// A budget that no request lives long enough to use up.
inline constexpr int32_t kCheckpointNever = std::numeric_limits<int32_t>::max();

// Sets the calling thread's budget: the slow path is taken at checkpoint number `checkpoints` + 1.
void checkpoint_budget_set(int32_t checkpoints);

// What the slow path calls on every thread; without one, checkpoints do nothing. Set before the
// first request runs.
void checkpoint_set_handler(void (*handler)());

// Where the calling thread's budget lives, for checkpoint_expire from another thread. Valid as long
// as the thread.
int32_t* checkpoint_budget_address();

// Makes the owner of `budget` take the slow path at its next checkpoint, unless the owner's own
// decrement overwrites it: repeat until answered. Any thread.
void checkpoint_expire(int32_t* budget);

#if defined(__x86_64__)
[[gnu::always_inline]] inline void checkpoint() {
  bool taken;
  asm volatile(
      "movq rubato_checkpoint_budget@gottpoff(%%rip), %%rax\n\t"
      "decl %%fs:(%%rax)"
      : "=@ccs"(taken)
      :
      : "rax");
  if (__builtin_expect(taken, 0)) rubato_checkpoint_slow();
}
#else
inline void checkpoint() { rubato_checkpoint(); }
#endif

}  // namespace rubato
