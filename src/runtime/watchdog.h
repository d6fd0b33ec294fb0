// SPDX-License-Identifier: Apache-2.0
//
// Watchdog<P>: notices once a millisecond what no awake thread would: a stuck worker (in a request
// that is not preempted, or without a CPU) that has work other workers may do, while they sleep;
// and requests in a queue that a sleeping worker may serve, because the plan has changed or a thief
// lost a race. It wakes one worker for each, which helps. A worker that is stuck for long gets
// another one that watches its arrivals. One caller at a time: the runtime's own thread. Never
// blocks.
#pragma once

#include "policy/archetype.h"
#include "runtime/live_host.h"
#include "runtime/runtime_state.h"

namespace rubato {

template <Policy P>
class Watchdog {
 public:
  static constexpr Nanos kPeriod = Nanos::millis(1);
  static constexpr Nanos kQuietPeriod = Nanos::millis(3);  // after a look that found all asleep

  explicit Watchdog(RuntimeState<P>& shared)
      : shared_(shared),
        host_(shared.queues, shared.plan, hook::initial_plan(shared.policy),
              shared.options.workers, shared.worker_stats, shared.shared_state,
              sched::Draws(0, 0)) {}

  // True if there can be anything to notice. Where each worker's arrivals are its own, no other
  // worker may help.
  static bool is_needed(const RuntimeOptions& options) {
    return options.workers > 1 && options.idle != Idle::kSpin && !kOwnArrivals<P>;
  }

  // True if the worker has work that other workers may do. Looking into the kernel costs less than
  // a worker that wakes for nothing.
  static bool has_work(RuntimeState<P>& shared, WorkerId worker) {
    if (shared.queues.any_to_take_over(worker)) return true;
    if (shared.groups.depth(worker) > 0) return true;
    if (shared.waits.port(worker).any_back()) return true;
    return shared.datapath.queue(worker).pending();
  }

  void look_if_due(Instant at) {
    if (at < next_look_ || !is_needed(shared_.options)) return;
    next_look_ = at + kPeriod;
    if (shared_.sleepers.all_awake()) return;
    host_.set_now(at);
    host_.refresh_plan();
    for (uint32_t worker = 0; worker < shared_.options.workers; ++worker) look_at({worker}, at);
    shared_.wakeups.wake_for_waiting({0}, host_);
  }

 private:
  void look_at(WorkerId worker, Instant at) {
    if (!shared_.stuck.is_stuck(worker, at)) return;
    if (shared_.stuck.watched(worker).load(std::memory_order_relaxed)) return;
    const bool for_long = shared_.stuck.is_stuck_for_long(worker, at);
    if (for_long || has_work(shared_, worker)) shared_.wakeups.wake_any(worker);
  }

  RuntimeState<P>& shared_;
  LiveHost<P> host_;
  Instant next_look_;
};

}  // namespace rubato
