// SPDX-License-Identifier: Apache-2.0
//
// WakeToken: how a call of wake() ends the present or the next wait of a queue's owner. As with the
// token of a parked thread, a wake is remembered until the end of a wait, and several count as one.
// How the owner sleeps and what ends its sleep, an eventfd say, is up to the queue. Of one queue;
// the queue's owner calls the methods, any thread wake().
//
// A queue may be delegated: its wakes then also wake the proxy poller, a queue like it.
//
// Memory order. Two threads each write a word and then read the other's: wake() writes `woken_` and
// reads `waiting_`, begin_wait() writes `waiting_` and reads `woken_`. All four are seq_cst, so at
// least one side sees the other: the waker ends the owner's sleep, or the owner does not sleep.
// wake() that finds `woken_` set already leaves the sleep to the thread that set it.
//
// What a waker did before wake() is seen by the owner after end_wait(), or ends the next wait: both
// exchange `woken_`, so either end_wait() acquires what wake() released, or wake() comes later and
// sets the token again.
//
// Delegation: delegate_to() stores `proxy_` and exchanges `woken_`, wake() exchanges `woken_` and
// loads `proxy_`; both exchanges acquire and release. If that of wake() is the later one, it finds
// the present proxy poller; if that of delegate_to() is, the delegating thread sees what the waker
// did before. So a wake beside delegate_to(&p) wakes p, or is seen by the owner, which tells p; one
// beside delegate_to(nullptr) wakes the owner or is seen by it.
//
// Sync: see mechanism/queue/sync.h. Queue: has wake().
#pragma once

#include "base/limits.h"
#include "mechanism/queue/sync.h"

namespace rubato {

template <class Queue, class Sync = StdSync>
class alignas(limits::kCacheLineBytes) WakeToken {
 public:
  // False = there was a wake: do not sleep. Either way end_wait() follows.
  bool begin_wait() {
    waiting_.store(true, std::memory_order_seq_cst);
    return !woken_.load(std::memory_order_seq_cst);
  }
  void end_wait() {
    waiting_.store(false, std::memory_order_relaxed);
    woken_.exchange(false, std::memory_order_acq_rel);
  }

  // From now on wakes go to `proxy` too; null = no longer. Forgets the wakes before.
  void delegate_to(Queue* proxy) {
    proxy_.store(proxy, std::memory_order_relaxed);
    woken_.exchange(false, std::memory_order_acq_rel);
  }

  // True = the owner may be asleep: end its sleep.
  bool wake() {
    const bool again = woken_.exchange(true, std::memory_order_seq_cst);
    if (Queue* proxy = proxy_.load(std::memory_order_relaxed)) proxy->wake();
    return !again && waiting_.load(std::memory_order_seq_cst);
  }

 private:
  typename Sync::template Atomic<bool> waiting_{false};
  typename Sync::template Atomic<bool> woken_{false};
  typename Sync::template Atomic<Queue*> proxy_{nullptr};
};

}  // namespace rubato
