// SPDX-License-Identifier: Apache-2.0
//
// Watch: a thread of the world that looks at a runtime's workers all the time: they do not all wait
// while something waits for them. What the world does to a thread does not count: nobody's stall or
// late wake-up and no jump of the clock is as recent as the bound. For tests; ends the program at
// once where it fails, so that a trace ends there.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "base/time.h"
#include "mechanism/clock/clock.h"
#include "mechanism/cpu/this_worker.h"
#include "virtual/world.h"

namespace rubato::virt::testing {

// What one thread waits for: whether it is a reply.
class Awaiting {
 public:
  // Called by the thread; begin() perhaps again before end().
  void begin() {
    thread_ = this_thread();
    if (since_ns_ == 0) since_ns_ = now().ns();
  }
  void end() { since_ns_ = 0; }
  // Since when it waits for one; never = it does not, or goes on soon.
  Instant since() const {
    const Instant since(since_ns_);
    const bool waits = since != Instant() && waits_since(thread_) != Instant::never();
    return waits ? since : Instant::never();
  }

 private:
  std::atomic<int64_t> since_ns_{0};
  std::atomic<uint32_t> thread_{0};
};

class Watch {
 public:
  struct Rules {
    uint32_t workers = 0;
    Nanos bound;  // for all workers
    // Since when something waits for the workers, at least; never = nothing does.
    std::function<Instant()> work_since;
    // True while something waits that every worker may run, and for how long it may if one worker
    // waits. Not asked where there is none.
    std::function<bool()> any_may_run;
    Nanos bound_of_each;
    // True while something waits that this worker alone may run, and for how long it may while the
    // worker waits. Asked also where nothing waits for the workers: no client waits for what a
    // connection is to be told unasked.
    std::function<bool(uint32_t worker)> has_own_work;
    Nanos bound_of_own;
    // True while a client is kept from what there is, and for how long it may be.
    std::function<bool()> is_starved = {};
    Nanos bound_of_starved = {};
  };

  explicit Watch(Rules rules)
      : rules_(std::move(rules)),
        is_worker_(kThreads),
        worker_of_(kThreads),
        own_since_(kThreads, Instant::never()) {
    thread_ = std::thread([this] {
      while (!done_) look();
    });
  }
  ~Watch() { stop(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void stop() {
    done_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // Called on every worker before it serves.
  void note_worker() {
    const uint32_t thread = this_thread();
    if (is_worker_.at(thread).exchange(true)) return;
    worker_of_.at(thread) = this_worker();
    ++workers_;
  }
  // As virt::fail_memory, once each worker has what it begins with.
  void fail_memory(uint32_t one_in) {
    if (one_in == 0) return;
    while (!knows_all()) virt::spend(kOften);
    virt::fail_memory(one_in);
  }

 private:
  static constexpr uint32_t kThreads = 512;
  static constexpr Nanos kOften = Nanos::micros(50);
  static constexpr Nanos kSeldom = Nanos::micros(500);

  bool knows_all() const { return workers_ == rules_.workers; }

  void look() {
    const Instant work = rules_.work_since();
    const bool idle = work == Instant::never();
    std::this_thread::sleep_for(std::chrono::nanoseconds((idle ? kSeldom : kOften).count()));
    if (!knows_all()) return;
    // Before the looks at the threads: this one may be stalled between them.
    const Instant at = now();
    const Instant quiet = others_stalled_until();
    Instant all = std::max(work, quiet);  // wait since then
    Instant one = Instant::never();       // the first of them
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      if (!is_worker_[thread]) continue;
      const Instant since = waits_since(thread);
      all = std::max(all, since);
      one = std::min(one, since);
      if (rules_.has_own_work) look_at_own(thread, at, std::max(since, quiet));
    }
    if (rules_.is_starved) look_at_starved(at, quiet);
    if (idle) {
      kept_since_ = Instant::never();
      return;
    }
    if (all < at && at - all > rules_.bound && work == rules_.work_since()) {
      fail("all workers wait while a request waits for them");
    }
    look_at_each(at, std::max(one, quiet));
  }

  // That worker has waited since `since`. What it has since a shorter time may just have come.
  void look_at_own(uint32_t thread, Instant at, Instant since) {
    Instant& kept = own_since_.at(thread);
    if (since >= at || !rules_.has_own_work(worker_of_[thread])) {
      kept = Instant::never();
      return;
    }
    kept = std::max(since, kept == Instant::never() ? at : kept);
    if (at - kept > rules_.bound_of_own) {
      fail("a worker waits while something waits that it alone may run");
    }
  }

  void look_at_starved(Instant at, Instant quiet) {
    if (quiet >= at || !rules_.is_starved()) {
      starved_since_ = Instant::never();
      return;
    }
    starved_since_ = std::max(quiet, starved_since_ == Instant::never() ? at : starved_since_);
    if (at - starved_since_ > rules_.bound_of_starved) {
      fail("a client is kept from what there is");
    }
  }

  // Some worker has waited since `since`.
  void look_at_each(Instant at, Instant since) {
    if (!rules_.any_may_run || since >= at || !rules_.any_may_run()) {
      kept_since_ = Instant::never();
      return;
    }
    kept_since_ = std::max(since, kept_since_ == Instant::never() ? at : kept_since_);
    if (at - kept_since_ > rules_.bound_of_each) {
      fail("a worker waits while a request waits that it may run");
    }
  }

  const Rules rules_;
  std::vector<std::atomic<bool>> is_worker_;  // by thread
  std::vector<std::atomic<uint32_t>> worker_of_;  // the same
  std::vector<Instant> own_since_;  // by thread: the worker and its own work have waited both
  std::atomic<uint32_t> workers_{0};
  std::atomic<bool> done_{false};
  Instant kept_since_ = Instant::never();  // a worker and a request have waited both
  Instant starved_since_ = Instant::never();
  std::thread thread_;
};

}  // namespace rubato::virt::testing
