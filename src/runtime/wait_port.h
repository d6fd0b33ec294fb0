// SPDX-License-Identifier: Apache-2.0
//
// WaitPort: the waits of one worker's requests, and the requests that come back from them. A
// request comes back to the worker that it has left, which is woken for it and hands it to the
// policy as one that has started; where a worker is stuck, others take what comes back to it.
// Waits: the ports of one runtime, its Reactor and its helper threads.
//
// Memory order: put_back() pushes, which releases the request (datapath/push_list.h), and then
// wakes the worker as for a request in its own queue (runtime/sleepers.h). `wakers_` counts the
// threads in put_back(), so that the runtime outlives them: raised before the push and thus before
// the request can end, relaxed; its fall is a release that the destructor acquires.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/limits.h"
#include "datapath/push_list.h"
#include "runtime/offload.h"
#include "runtime/reactor.h"
#include "runtime/shutdown.h"
#include "runtime/waiter.h"

namespace rubato {

class Waits;

class alignas(limits::kCacheLineBytes) WaitPort {
 public:
  WaitPort(Waits& waits, WorkerId worker, Reactor& reactor)
      : waits_(waits), worker_(worker), reactor_(&reactor) {}

  Waits& waits() const { return waits_; }
  Reactor& reactor() const { return *reactor_; }
  // Before the worker runs: its thread serves its waits.
  Reactor& have_own_reactor() {
    own_reactor_ = std::make_unique<Reactor>();
    reactor_ = own_reactor_.get();
    return *reactor_;
  }

  // A request is about to wait, and has waited. On its worker, not to be preempted.
  void enter(Waiter& waiter, const WaitLimit& limit);
  void leave(Waiter& waiter);

  // A request whose wait is over. Any thread.
  void put_back(Waiter& waiter);
  // The requests that have come back, first come first, linked; null = there are none. Any worker.
  Waiter* take_back() { return back_.take_all_in_order(); }
  bool any_back() const { return !back_.empty(); }

  // Ends the waits of requests whose reply is not wanted any more, or whose client has sent its
  // last byte and may be gone: that only ends as long a wait as the limit. Any thread.
  void sweep(Instant at);
  // The runtime has stopped: waiters that nobody will resume leave what they wait for.
  void forsake();
  bool in_use() const { return wakers_.load(std::memory_order_acquire) != 0; }
  // Requests that wait; a hint.
  uint32_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

 private:
  bool has_waited_for_half_closed(Waiter& waiter, Instant at) const;

  Waits& waits_;
  const WorkerId worker_;
  Reactor* reactor_;
  std::unique_ptr<Reactor> own_reactor_;
  PushList<Waiter> back_;
  std::atomic<uint32_t> wakers_{0};
  std::atomic<uint32_t> waiting_{0};
  SpinLock lock_;  // guards present_
  IntrusiveList<Waiter, &Waiter::present> present_;
};

class Waits {
 public:
  // `wake` ends the sleep of a worker that requests have come back to; `half_closed_limit` is that
  // of the options.
  Waits(uint32_t workers, const Shutdown& shutdown, Nanos half_closed_limit,
        std::function<void(WorkerId)> wake);
  ~Waits();
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;

  WaitPort& port(WorkerId worker) { return *ports_[worker.value]; }
  Reactor& reactor() { return reactor_; }  // of the ports that have none of their own
  Offload& helpers() { return *helpers_; }
  void wake(WorkerId worker) const { wake_(worker); }

  Nanos half_closed_limit() const { return half_closed_limit_; }
  // Is the reply of this request unwanted, since its client is gone or the stop is at its limit?
  bool is_unwanted(const Request& request, Instant at) const;
  // Called by workers: ends the waits of requests whose clients are gone, now and then.
  void sweep_if_due(Instant at) {
    if (clients() > 0 && at.ns() >= next_sweep_ns_.load(std::memory_order_relaxed)) sweep(at);
  }
  // Called by workers while the runtime drains.
  void sweep_at_drain_limit(Instant at);

  // Requests of connections that wait; relaxed, a hint.
  void count_client(bool waits) {
    waits ? clients_.fetch_add(1, std::memory_order_relaxed)
          : clients_.fetch_sub(1, std::memory_order_relaxed);
  }
  uint32_t clients() const { return clients_.load(std::memory_order_relaxed); }
  // How long a request of a client that is gone may wait on.
  static constexpr Nanos kSweepPeriod = Nanos::millis(10);

 private:
  void sweep(Instant at);

  const Shutdown& shutdown_;
  const Nanos half_closed_limit_;
  const std::function<void(WorkerId)> wake_;
  Reactor reactor_;
  std::vector<std::unique_ptr<WaitPort>> ports_;
  std::unique_ptr<Offload> helpers_;
  std::atomic<uint32_t> clients_{0};
  std::atomic<int64_t> next_sweep_ns_{0};  // relaxed: two workers may sweep at once
};

}  // namespace rubato
