// SPDX-License-Identifier: Apache-2.0
//
// StuckWorkers: tells which workers are awake but have not polled their arrivals for long: they are
// in a request that is not preempted, or without a CPU. Other workers help them, and a sleeping
// worker watches the arrivals of a worker that is stuck for long. Any thread; all answers are
// hints.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/limits.h"
#include "base/time.h"
#include "runtime/worker_stats.h"

namespace rubato {

class StuckWorkers {
 public:
  // `stats` are those of all workers; complete when the first worker runs.
  StuckWorkers(uint32_t workers, const std::vector<const WorkerStats*>& stats)
      : stats_(stats), watched_(workers) {}

  bool is_stuck(WorkerId worker, Instant at) const {
    return stuck_for(worker, at) >= limits::kHelpAfter;
  }
  // Stuck so long that another worker should watch its arrivals from now on; before that another
  // worker only takes over requests that have come. Workers without a CPU get it back within
  // milliseconds.
  bool is_stuck_for_long(WorkerId worker, Instant at) const {
    return stuck_for(worker, at) >= kStuckForLong;
  }

  // True for a stuck worker whose arrivals end the sleep of another worker, which sets and clears
  // it.
  std::atomic<bool>& watched(WorkerId worker) { return watched_[worker.value].value; }

 private:
  static constexpr Nanos kStuckForLong = Nanos::millis(5);

  struct alignas(limits::kCacheLineBytes) Flag {
    std::atomic<bool> value{false};
  };

  Nanos stuck_for(WorkerId worker, Instant at) const {
    const int64_t polled = stats_[worker.value]->polled_ns.load(std::memory_order_relaxed);
    return polled != WorkerStats::kAsleep ? at - Instant(polled) : Nanos();
  }

  const std::vector<const WorkerStats*>& stats_;
  std::vector<Flag> watched_;
};

}  // namespace rubato
