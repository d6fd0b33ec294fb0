// SPDX-License-Identifier: Apache-2.0
//
// The part of the interposers for callers that run on a fiber: non-preemptible regions, the locks
// that the fiber holds, and waiting without blocking the worker. `caller` is the code that the
// interposed function returns to: libc calls malloc while it holds locks of its own, so a
// preemption that falls due in a non-preemptible region is honoured at its end only if that code
// may be left, and else by a later try. A fiber that waits for a lock or a condition yields,
// whatever code calls. Nothing here is used on plain threads, except on_plain_thread() and, once a
// runtime is attached, note_foreign_release().
//
// State is kept per TLS block (hooks.h). Leaving a non-preemptible region may switch a fiber that
// shares its TLS block to another thread, so nothing here holds the address of a thread_local over
// that; the accessors are not inlined.
#pragma once

#include <time.h>

#include <cstdint>

#include "mechanism/preempt/interpose/hooks.h"

namespace rubato::interpose {

// (Initial-exec: one load, and usable before the library's constructors.)
extern thread_local constinit uint8_t t_kind __attribute__((tls_model("initial-exec")));

[[gnu::always_inline]] inline bool on_plain_thread() {
  return __builtin_expect(t_kind == RUBATO_INTERPOSE_PLAIN, 1);
}
[[gnu::always_inline]] inline bool on_own_tls() {
  return __builtin_expect(t_kind == RUBATO_INTERPOSE_OWN_TLS, 0);
}

// True if the caller may give its worker away half-way through code that knows nothing of fibers.
[[gnu::always_inline]] inline bool may_yield() { return t_kind >= RUBATO_INTERPOSE_OWN_TLS; }

bool attached();
// True if the caller is code of a request; otherwise the runtime itself waits, which blocks.
bool in_request();
void enter();
void leave(const void* caller);  // may switch, if `caller` may be left; keeps errno
void code_changed();
// Makes the call as the worker's thread, in a non-preemptible region.
void call_as_thread(void (*call)(void*), void* argument);
// How often the caller was interrupted by the runtime's signal.
uint32_t interrupts();

class Guard {
 public:
  [[gnu::always_inline]] explicit Guard(const void* caller) : caller_(caller) { enter(); }
  [[gnu::always_inline]] ~Guard() { leave(caller_); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  const void* const caller_;
};

// A point in time on a clock of libc's; unset = never.
struct Deadline {
  const timespec* at = nullptr;
  clockid_t clock = CLOCK_REALTIME;

  bool valid() const;
  bool passed() const;
  int64_t left_ns() const;
};

// The instant of CLOCK_MONOTONIC that is so far ahead.
timespec after(int64_t ns);

// The waiting of a fiber that may yield. It lets other fibers run, and has the worker sleep, a
// little longer each time, only when no other fiber used any time.
class Patience {
 public:
  // Gives the worker away. True: try again at once.
  bool let_others_run();
  // How long to block the worker for now, at most until `deadline`; and until when, of
  // CLOCK_MONOTONIC.
  timespec next_pause(const Deadline& deadline);
  timespec next_pause_end(const Deadline& deadline);
  // The two in one, for conditions that the kernel cannot wait for.
  void wait(const Deadline& deadline);

 private:
  int64_t pause_ns_ = 50'000;
  uint32_t vain_yields_ = 0;
};

// A lock as an attempt and a bounded wait. `attempt` returns what trylock returns; EBUSY = taken.
// `wait` blocks until it has the lock or the instant (of CLOCK_MONOTONIC) has passed; null = there
// is no such call, sleep.
struct LockKind {
  int (*attempt)(void* lock);
  int (*wait)(void* lock, const timespec* until);
  // The error for a holder that asks again; 0 = none, the holder waits for itself.
  int when_held_by_caller = 0;
};

// On a fiber: takes the lock and opens the region that lasts until give().
int try_take(const LockKind& kind, void* lock, const void* caller);
int yield_and_take(const LockKind& kind, void* lock, const Deadline& deadline,
                   const void* caller);  // may yield
// Follows a call of libc in a non-preemptible region, which it closes if no lock was taken.
int keep_if_taken(int rc, const void* lock, const void* caller);

// The same, with libc's own call for fibers that may not yield: no holder of a lock is switched
// away, so the holder that the caller waits for is running.
template <class Block>
[[gnu::always_inline]] inline int take(const LockKind& kind, void* lock, const Deadline& deadline,
                                       const void* caller, Block block) {
  if (may_yield()) return yield_and_take(kind, lock, deadline, caller);
  enter();
  return keep_if_taken(block(), lock, caller);
}

// Called after the lock has been released, whichever thread took it: closes the caller's region if
// the caller held the lock, otherwise has the holder close its own. May switch.
void give(const void* lock, const void* caller);

// A region in which libc may wait for a lock of its own that a suspended request holds. It counts
// as a lock, so that a request that is stuck there may be left, as one that waits for such a lock
// in libc's own code may (docs/decisions/020).
class WaitingGuard {
 public:
  [[gnu::always_inline]] explicit WaitingGuard(const void* caller) : caller_(caller) {
    enter();
    keep_if_taken(0, this, caller);
  }
  [[gnu::always_inline]] ~WaitingGuard() { give(this, caller_); }
  WaitingGuard(const WaitingGuard&) = delete;
  WaitingGuard& operator=(const WaitingGuard&) = delete;

 private:
  const void* const caller_;
};

// A plain thread has released a lock that it had not taken.
void note_foreign_release(const void* lock);

// The kernel's id of the calling thread.
int thread_id();

}  // namespace rubato::interpose
