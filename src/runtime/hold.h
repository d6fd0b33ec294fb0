// SPDX-License-Identifier: Apache-2.0
//
// Hold: tells when the workers of a policy have answered every request that they had taken in, so
// that the next policy can begin. While the runtime is held (runtime/shutdown.h) workers take
// nothing in; what clients send waits in the datapath.
//
// Memory order: a worker that sees the hold says so with release, after its last poll. Who acquires
// the word of every worker has the final number of requests taken in. The number of those given
// back only grows, and never beyond it: where the two are equal nothing is left, in whatever order
// the counters were read. What the workers wrote is ordered by their threads' ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/limits.h"
#include "runtime/worker_stats.h"

namespace rubato {

class Hold {
 public:
  // `stats` are those of all workers; complete when the first worker runs.
  Hold(uint32_t workers, const std::vector<const WorkerStats*>& stats)
      : stats_(stats), seen_(workers) {}

  // That worker takes nothing in while the hold with that number lasts. By the worker.
  void sees(WorkerId worker, uint32_t number) {
    seen_[worker.value].number.store(number, std::memory_order_release);
  }

  // Every worker sees that hold, and holds no request. Any thread.
  bool is_empty(uint32_t number) const {
    for (const Seen& seen : seen_) {
      if (seen.number.load(std::memory_order_acquire) != number) return false;
    }
    uint64_t left = 0;
    for (const WorkerStats* worker : stats_) {
      left += worker->taken_in.value() - worker->given_back.value();
    }
    return left == 0;
  }

 private:
  struct alignas(limits::kCacheLineBytes) Seen {
    std::atomic<uint32_t> number{0};
  };

  const std::vector<const WorkerStats*>& stats_;
  std::vector<Seen> seen_;
};

}  // namespace rubato
