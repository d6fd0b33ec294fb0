// SPDX-License-Identifier: Apache-2.0
//
// checkpoint(): the place where a running request lets itself be preempted. When not taken, it is
// one decrement of a per-thread word and a branch that is predicted not taken. The word counts down
// to the next look at the clock (self-preemption), or is overwritten by the timer core.
//
// The instruction itself is in <rubato/checkpoint.h>, which applications compile in too. A store by
// the timer core can lose against the decrement; the timer core therefore stores again until the
// worker has answered.
#pragma once

#include <rubato/checkpoint.h>

#include <cstdint>
#include <limits>

extern "C" {
// Checkpoints left until the slow path is taken. Written by its thread, and by the timer core
// through the address that the thread has published.
extern thread_local int32_t rubato_checkpoint_budget __attribute__((tls_model("initial-exec")));
}

namespace rubato {

// A budget that no request lives long enough to use up.
inline constexpr int32_t kCheckpointNever = std::numeric_limits<int32_t>::max();

// Sets the calling thread's budget: the slow path is taken at checkpoint number `checkpoints` + 1.
void checkpoint_budget_set(int32_t checkpoints);

// Sets the function that the slow path calls on every thread; without one, checkpoints do nothing.
// The handler returns whether the request is to end. Set it before the first request runs.
void checkpoint_set_handler(bool (*handler)());

// The address of the calling thread's budget, for checkpoint_expire from another thread. Valid as
// long as the thread lives.
int32_t* checkpoint_budget_address();

// Makes the owner of `budget` take the slow path at its next checkpoint, unless the owner's own
// decrement overwrites it: repeat until answered. Any thread.
void checkpoint_expire(int32_t* budget);

// True: the reply is not wanted any more, so the request is to end as soon as it can.
[[gnu::always_inline]] inline bool checkpoint() { return rubato_checkpoint_inline() != 0; }

}  // namespace rubato
