// SPDX-License-Identifier: Apache-2.0
//
// Wakeups: how a fiber that waits on a condition variable learns of a signal. The fiber is not in
// libc's list of waiters, because that would block its worker; it notes a sequence number while it
// still holds the mutex, and checks whether the number has moved whenever it has its turn. Any
// thread.
//
// No signal is lost: a change of the predicate that the waiter has not seen is made under the mutex
// after the waiter has released it, so the thread that makes the change sees the waiter counted
// (the mutex orders the two), and the number moves after the waiter has read it. Several condition
// variables may share one Wakeups: any condition variable may wake a waiter without need.
//
// Ordering: between waiter and signaller by the mutex; acquire and release on the number order what
// was written before the signal with the waiter's look.
#pragma once

#include <cstdint>

#include "mechanism/queue/sync.h"

namespace rubato::interpose {

template <class Sync = StdSync>
class Wakeups {
 public:
  // Called with the mutex held. Returns the argument for woken().
  uint32_t enlist() {
    add(waiters_, 1);
    return sequence_.load(std::memory_order_acquire);
  }

  bool woken(uint32_t since) const { return sequence_.load(std::memory_order_acquire) != since; }

  void dismiss() { add(waiters_, ~uint32_t{0}); }

  // False: no fiber waits.
  bool notify() {
    if (waiters_.load(std::memory_order_acquire) == 0) return false;
    add(sequence_, 1);
    return true;
  }

  // For the kernel's futex.
  uint32_t* sequence_word()
    requires(sizeof(typename Sync::template Atomic<uint32_t>) == sizeof(uint32_t))
  {
    return reinterpret_cast<uint32_t*>(&sequence_);
  }

 private:
  using Word = typename Sync::template Atomic<uint32_t>;

  static void add(Word& word, uint32_t delta) {
    uint32_t seen = word.load(std::memory_order_relaxed);
    while (!word.compare_exchange_weak(seen, seen + delta, std::memory_order_acq_rel)) {
    }
  }

  Word waiters_{0};
  Word sequence_{0};
};

}  // namespace rubato::interpose
