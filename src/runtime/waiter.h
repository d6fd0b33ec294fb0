// SPDX-License-Identifier: Apache-2.0
//
// Waiter: one wait of one request or thread, on its stack: the park and unpark under everything
// that waits. Whoever may end the wait finds the Waiter in a list (WaitQueue, Reactor, WaitPort,
// CancelList), claims it with that list's lock held (wait_word.h), and delivers it once the lock is
// free. So a request that waits is in no queue of the policy and has no worker; delivered, it
// returns to the worker that it has left (WaitPort), which hands it to the policy. Outside of a
// request, a wait blocks the thread.
//
// The Waiter leaves every list before wait() returns, so who finds it there may use it as long as
// the list is locked, and after a successful claim until it is delivered.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/intrusive_list.h"
#include "base/time.h"
#include "mechanism/queue/spin_lock.h"
#include "runtime/timer_heap.h"
#include "runtime/wait_word.h"

namespace rubato {

class CancelList;
class WaitPort;
class WaitQueue;
struct Request;

namespace waiting {
class Mutex;
}

struct WaitLimit {
  Instant deadline = Instant::never();
  // The wait goes on until it is woken: nothing cancels it, and where no fiber is left the worker
  // is blocked. Else the end of the request's deadline, a cancellation or a stop at its drain limit
  // end it.
  bool firm = false;
};

class Waiter {
 public:
  Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Announced in a list beforehand, unless only the limit can end it. May switch. Requires that the
  // caller still takes the Waiter out of the list of its own.
  Wake wait(const WaitLimit& limit);

  // For other requests of this worker: the running one goes to the tail of its queue. May switch.
  static void yield();

  Claim claim(Wake why) { return word_.claim(why); }
  // After Claim::kDeliver; the Waiter may be gone afterwards.
  void deliver();

  // The worker that has left the fiber: as in wait_word.h.
  bool settle() { return word_.settle(); }
  // The request is sure to wait: it unlocks what it waits with.
  void let_go();
  // Its wait is over: has it what it let go? False: whoever unlocks that delivers it, and it may be
  // gone. The claimant's, or of who has failed to settle.
  bool has_again();
  Request& request() const { return *request_; }
  bool firm() const { return limit_.firm; }
  // The worker that the request leaves.
  void set_home(WaitPort& port) { home_ = &port; }

  ListLinks<Waiter> queued;     // in a WaitQueue, or for a descriptor
  ListLinks<Waiter> present;    // at a WaitPort
  ListLinks<Waiter> cancelled;  // in a CancelList
  TimerLinks<Waiter> timer;
  bool is_timed = false;  // the Reactor has been told of a deadline
  Waiter* next_in_list = nullptr;  // of Claimed and PushList
  // Locked by the caller; unlocked while it waits and then locked again before it goes on, so that
  // it does not wait twice. A thread locks it itself, and who has found no fiber has kept it.
  waiting::Mutex* mutex = nullptr;
  bool has_mutex = true;
  bool is_claimed = false;  // the wait is over but for the mutex, which guards this
  WaitQueue* queue = nullptr;      // that it is in, while it waits
  CancelList* cancel_list = nullptr;
  int fd = -1;         // with the events that it waits for, and those that have come
  uint32_t events = 0;
  Instant half_closed_since;  // the WaitPort's: when a sweep first found the client so

 private:
  // What a thread that waits sleeps on.
  struct Thread {
    std::mutex mutex;
    std::condition_variable changed;
    bool notified = false;
  };

  bool begin();
  void end();
  Wake wait_on_thread();
  Wake result() const;

  WaitWord<> word_;
  WaitLimit limit_;
  Request* request_ = nullptr;
  WaitPort* home_ = nullptr;     // null = a thread waits
  WaitPort* present_at_ = nullptr;
  Thread* thread_ = nullptr;
};

// Those that were claimed with a lock held, to be delivered once it is free, in their order.
class Claimed {
 public:
  Claimed() = default;
  ~Claimed() { deliver(); }
  Claimed(const Claimed&) = delete;
  Claimed& operator=(const Claimed&) = delete;

  // False: another one was first.
  bool claim(Waiter& waiter, Wake why) {
    const Claim claim = waiter.claim(why);
    if (claim == Claim::kDeliver) add(waiter);
    return claim != Claim::kLost;
  }
  void add(Waiter& waiter) {
    waiter.next_in_list = nullptr;
    (last_ != nullptr ? last_->next_in_list : first_) = &waiter;
    last_ = &waiter;
  }
  void deliver();

 private:
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

// The waits that one cancellation ends.
class CancelList {
 public:
  void add(Waiter& waiter);
  void remove(Waiter& waiter);
  // Ends the waits that are there.
  void cancel();

 private:
  SpinLock lock_;
  IntrusiveList<Waiter, &Waiter::cancelled> waiters_;
};

}  // namespace rubato
