// SPDX-License-Identifier: Apache-2.0
//
// LockWatchdog<P>: notices once a millisecond a worker that makes no progress: it has been in one
// request for long, blocked in the kernel or in a loop, and others wait for a turn, which that
// request may be waiting for in turn: it may want a lock of one that is suspended. It interrupts
// the worker, which leaves the request where it is, has the others run, and tries again
// (docs/decisions/020). One caller at a time: the runtime's own thread. Never blocks.
//
// Only for mechanisms that interrupt any code, and by a signal, which ends a system call. With
// checkpoints a request that waits without saying so keeps its worker.
#pragma once

#include <memory>
#include <vector>

#include "runtime/live_worker.h"
#include "runtime/runtime_state.h"

namespace rubato {

template <Policy P>
class LockWatchdog {
 public:
  LockWatchdog(RuntimeState<P>& shared, std::vector<std::unique_ptr<LiveWorker<P>>>& workers)
      : shared_(shared), workers_(workers), next_asks_(shared.options.workers) {}

  static bool is_needed(const RuntimeOptions& options) {
    return !options.foreign_runtime && (options.preempt == PreemptMechanism::kSignal ||
                                        options.preempt == PreemptMechanism::kTimer);
  }

  void look_if_due(Instant at) {
    if (at < next_look_ || !is_needed(shared_.options)) return;
    next_look_ = at + kPeriod;
    for (uint32_t worker = 0; worker < shared_.options.workers; ++worker) look_at({worker}, at);
  }

 private:
  static constexpr Nanos kPeriod = Nanos::millis(1);
  // A request that the kernel has had for so long is taken to be blocked. If it is not, the
  // interrupt was for nothing, so it is not asked more often either.
  static constexpr Nanos kBlocked = Nanos::millis(5);
  // A request that has run for so long, while others were suspended, may be waiting for one of
  // them. If it only computes, it loses a turn now and then.
  static constexpr Nanos kLoops = Nanos::millis(20);

  void look_at(WorkerId worker, Instant at) {
    const WorkerStats& stats = *shared_.worker_stats[worker.value];
    const int64_t since = stats.busy_since_ns.load(std::memory_order_acquire);
    if (since == 0 || at - Instant(since) < kBlocked || at < next_asks_[worker.value]) return;
    const bool suspended = any_suspended();
    if (!suspended && !any_waiting(worker)) return;
    next_asks_[worker.value] = at + kBlocked;
    const bool loops = suspended && at - Instant(since) >= kLoops;
    workers_[worker.value]->preempter().leave_if_stuck(since, loops);
  }

  bool any_suspended() const {
    int64_t sum = 0;
    for (const WorkerStats* worker : shared_.worker_stats) sum += worker->suspended();
    return sum > 0;
  }

  bool any_waiting(WorkerId worker) {
    return shared_.queues.any_waiting() || shared_.groups.depth(worker) > 0 ||
           shared_.datapath.queue(worker).pending();
  }

  RuntimeState<P>& shared_;
  std::vector<std::unique_ptr<LiveWorker<P>>>& workers_;
  Instant next_look_;
  std::vector<Instant> next_asks_;
};

}  // namespace rubato
