// SPDX-License-Identifier: Apache-2.0
//
// Sleepers: records which workers of one runtime are asleep, so that a thread that queues a request
// for other workers wakes exactly one worker that will serve it. A worker marks itself, looks for
// work a last time by asking its policy, and sleeps if there is none; a worker that is woken is
// claimed first, so two requests wake two workers. How a worker sleeps and what ends its sleep is
// up to the caller.
//
// Only the worker `me` calls the methods that take a `me`; any thread may call the others.
//
// Memory order. Two sides, each with a sequentially consistent fence between its two steps: a
// worker stores its mark, passes the fence and looks at the queues; the thread that queues a
// request makes it visible, passes the fence and loads the marks. So the worker sees the request,
// or the mark is seen, or both. A mark is taken by a compare-and-swap, hence by one claimant.
// `awake_` counts the marks that are not set; it may lag behind them for a moment on the way up,
// never on the way down, so that "all are awake" means that no mark is overlooked. That rests on
// the fences, so the count itself is relaxed, but for its way up, which is seq_cst: the worker that
// raises it from 0 notifies, and libstdc++ notifies nobody if a seq_cst load finds nobody waiting.
// So the thread that waits is seen, or it sees the count raised and does not sleep. `watched_` is
// written before the wait and read after the raise, all seq_cst, and does the same. It is there
// since libstdc++ counts the waiters of several words together: where a thread waits for long for
// another word, such as the Reactor's, and shares a counter with `awake_`, each notification would
// be a system call in vain.
//
// Sync: see mechanism/queue/sync.h.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/limits.h"
#include "mechanism/queue/sync.h"

namespace rubato {

template <class Sync = StdSync>
class Sleepers {
 public:
  static constexpr uint32_t kNobody = UINT32_MAX;

  explicit Sleepers(uint32_t workers) : marks_(workers), awake_(workers) {}

  // Called before the last look for work. Until wakes_up(me) other threads may claim the worker.
  void falls_asleep(WorkerId me) {
    RUBATO_DCHECK(!is_asleep(me));
    [[maybe_unused]] const uint32_t before = awake_.fetch_sub(1, std::memory_order_relaxed);
    RUBATO_DCHECK(before > 0);
    marks_[me.value].asleep.store(1, std::memory_order_relaxed);
    Sync::fence();
  }
  void wakes_up(WorkerId me) {
    marks_[me.value].asleep.store(0, std::memory_order_relaxed);
    comes_back();
  }

  // The same for a worker that no thread may claim.
  void leaves() { awake_.fetch_sub(1, std::memory_order_relaxed); }
  void comes_back() {
    if (awake_.fetch_add(1, std::memory_order_seq_cst) != 0) return;
    if (watched_.load(std::memory_order_seq_cst)) awake_.notify_all();
  }

  // Called after queueing a request that only this worker may serve. True = its sleep must be
  // ended.
  bool claim(WorkerId worker) {
    Sync::fence();
    return take_mark(worker.value);
  }

  // Called after queueing a request: claims the first worker after `from`, in ring order, that is
  // asleep and may serve it. Its sleep must be ended. kNobody = none, so the workers that may are
  // awake.
  template <class May>
  uint32_t claim_one(WorkerId from, May&& may) {
    Sync::fence();
    if (all_awake()) return kNobody;
    const auto workers = static_cast<uint32_t>(marks_.size());
    for (uint32_t i = 1; i <= workers; ++i) {
      const uint32_t worker = (from.value + i) % workers;
      if (is_asleep({worker}) && may(WorkerId{worker}) && take_mark(worker)) return worker;
    }
    return kNobody;
  }

  // Hints.
  bool is_asleep(WorkerId worker) const {
    return marks_[worker.value].asleep.load(std::memory_order_relaxed) != 0;
  }
  bool all_awake() const { return awake_.load(std::memory_order_relaxed) == marks_.size(); }
  bool all_asleep() const { return awake_.load(std::memory_order_relaxed) == 0; }

  // Sleeps until a worker is awake. Any thread but the workers.
  void wait_while_all_asleep() {
    watched_.store(true, std::memory_order_seq_cst);
    awake_.wait(0, std::memory_order_seq_cst);
  }

 private:
  struct alignas(limits::kCacheLineBytes) Mark {
    typename Sync::template Atomic<uint32_t> asleep{};
  };

  bool take_mark(uint32_t worker) {
    uint32_t asleep = 1;
    return marks_[worker].asleep.compare_exchange_strong(asleep, 0, std::memory_order_acq_rel,
                                                         std::memory_order_relaxed);
  }

  std::vector<Mark> marks_;
  alignas(limits::kCacheLineBytes) typename Sync::template Atomic<uint32_t> awake_;
  // Some thread waits for `awake_` now and then.
  alignas(limits::kCacheLineBytes) typename Sync::template Atomic<bool> watched_{false};
};

}  // namespace rubato
