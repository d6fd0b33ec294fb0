// SPDX-License-Identifier: Apache-2.0
//
// What requests wait for, all on Waiter: time, locks, conditions, permits, descriptors. A request
// that waits holds no worker; a thread that waits is blocked. Each serves those that wait first
// come, first served: what is released goes to the first of them, and nobody overtakes. Any thread;
// the calls that wait may switch. All zero bits are an object that is ready for use, and one that
// nobody uses or waits for needs no end.
#pragma once

#include <cstdint>

#include "runtime/wait_queue.h"

namespace rubato::waiting {

// True for the current request, by its own code: its waits hold no worker.
bool is_waited_for_here(const Request& request);

// Wake::kTimeout once the deadline has come.
Wake sleep(const WaitLimit& limit);

// For POLLIN, POLLOUT, ... of `fd`: kWoken, with those that have come in `came`; an error of the
// descriptor counts as one. kRefused: `error` has the errno.
Wake wait_fd(int fd, uint32_t events, const WaitLimit& limit, uint32_t& came, int& error);

// Runs a call that blocks on a helper thread, outside of a request on the caller's. False: it was
// not run, as there is no helper to be had.
bool offload(void (*call)(void* user), void* user);

class Mutex {
 public:
  Wake lock(const WaitLimit& limit) {
    return queue_.wait(limit, [this] { return take() ? Wake::kWoken : Wake::kNone; });
  }
  bool try_lock() {
    const WaitQueue::Guard guard(queue_);
    return take();
  }
  void unlock() {
    Claimed claimed;
    const WaitQueue::Guard guard(queue_);
    if (!queue_.wake_first(guard, claimed)) taken_ = false;
  }
  // For a request that is on no worker, whose wait is over. False: it is locked, and whoever
  // unlocks it delivers the waiter, which has it then.
  bool give(Waiter& waiter) {
    const WaitQueue::Guard guard(queue_);
    if (take()) return true;
    waiter.is_claimed = true;
    queue_.add(guard, waiter);
    return false;
  }

 private:
  bool take() {
    if (taken_) return false;
    return taken_ = true;
  }

  WaitQueue queue_;
  bool taken_ = false;
};

class Condition {
 public:
  // The mutex is locked when it returns, whatever it returns; kRefused: it has been all the time.
  Wake wait(Mutex& mutex, const WaitLimit& limit) {
    Waiter waiter;
    waiter.mutex = &mutex;
    const Wake why = queue_.wait(waiter, limit, [] { return Wake::kNone; });
    if (!waiter.has_mutex) static_cast<void>(mutex.lock({.firm = true}));
    return why;
  }
  void notify(bool all) {
    Claimed claimed;
    const WaitQueue::Guard guard(queue_);
    while (queue_.wake_first(guard, claimed) && all) continue;
  }

 private:
  WaitQueue queue_;
};

class Semaphore {
 public:
  // kClosed: there is no permit, and none will come.
  Wake acquire(const WaitLimit& limit) {
    return queue_.wait(limit, [this] { return take(); });
  }
  bool try_acquire() {
    const WaitQueue::Guard guard(queue_);
    return take() == Wake::kWoken;
  }
  void release(uint64_t permits) {
    Claimed claimed;
    const WaitQueue::Guard guard(queue_);
    while (permits > 0 && queue_.wake_first(guard, claimed)) --permits;
    permits_ += permits;
  }
  // Whoever waits, and whoever comes and finds no permit, gets kClosed.
  void close() {
    Claimed claimed;
    const WaitQueue::Guard guard(queue_);
    closed_ = true;
    while (queue_.wake_first(guard, claimed, Wake::kClosed)) continue;
  }

 private:
  Wake take() {
    if (permits_ == 0) return closed_ ? Wake::kClosed : Wake::kNone;
    --permits_;
    return Wake::kWoken;
  }

  WaitQueue queue_;
  uint64_t permits_ = 0;
  bool closed_ = false;
};

}  // namespace rubato::waiting
