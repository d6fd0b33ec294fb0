// SPDX-License-Identifier: Apache-2.0
//
// WaitQueue: requests and threads that wait for one thing, first come, first served. What they wait
// for is state of the caller, which the queue's guard protects. All zero bits are an empty queue.
// Any thread.
#pragma once

#include "mechanism/preempt/preempt_disable.h"
#include "runtime/waiter.h"

namespace rubato {

class WaitQueue {
 public:
  // Keeps other threads out, for a few instructions. Nothing may be delivered with it.
  class Guard {
   public:
    explicit Guard(WaitQueue& queue) : queue_(queue) { queue_.lock_.lock(); }
    ~Guard() { queue_.lock_.unlock(); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    const PreemptDisableGuard no_preemption_;
    WaitQueue& queue_;
  };

  // Asks look(), guarded, whether the caller need not wait: a Wake, or kNone. May switch, but is
  // not preempted: a stop takes those that wait out of the queue (WaitPort::forsake), no others.
  template <class Look>
  Wake wait(const WaitLimit& limit, Look&& look) {
    Waiter waiter;
    return wait(waiter, limit, look);
  }
  template <class Look>
  Wake wait(Waiter& waiter, const WaitLimit& limit, Look&& look) {
    const PreemptDisableGuard no_preemption;
    {
      const Guard guard(*this);
      if (const Wake at_once = look(); at_once != Wake::kNone) return at_once;
      add(guard, waiter);
    }
    const Wake why = waiter.wait(limit);
    // Whoever has woken it is through with the queue then, so that the caller may destroy it.
    remove(waiter);
    return why;
  }

  // Guarded: the last one from now on.
  void add(const Guard&, Waiter& waiter) {
    waiter.queue = this;
    waiters_.push_back(waiter);
  }

  // Guarded: wakes the first one, which is delivered later. False: nobody waits.
  bool wake_first(const Guard&, Claimed& claimed, Wake why = Wake::kWoken) {
    while (Waiter* const first = waiters_.pop_front()) {
      if (first->is_claimed) claimed.add(*first);
      if (first->is_claimed || claimed.claim(*first, why)) return true;
    }
    return false;
  }

  // Guarded.
  bool empty(const Guard&) const { return waiters_.empty(); }

  void remove(Waiter& waiter) {
    const Guard guard(*this);
    if (waiters_.has(waiter)) waiters_.erase(waiter);
  }

 private:
  SpinLock lock_;
  IntrusiveList<Waiter, &Waiter::queued> waiters_;
};

}  // namespace rubato
