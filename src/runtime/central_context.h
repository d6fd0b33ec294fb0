// SPDX-License-Identifier: Apache-2.0
//
// CentralContext<P>: the policy's central state, and the two hooks that use it: `adapt`, the slow
// path that publishes a plan, and `dispatch`, by which the policy pushes. The context has no thread
// of its own: workers and the timer core run its steps, one at a time (runtime/turn.h). Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "policy/contract.h"
#include "runtime/live_host.h"
#include "runtime/plan_cell.h"
#include "runtime/turn.h"
#include "runtime/wakeups.h"

namespace rubato {

template <Policy P>
class CentralContext {
 public:
  // Everything that the context borrows outlives it.
  CentralContext(const P& policy, QueueSet<P>& queues, PlanCell<typename P::Plan>& plan,
              uint32_t workers, const std::vector<const WorkerStats*>& stats,
              SharedState& shared_state,
              Wakeups<P>& wakeups)
      : policy_(policy),
        plan_(plan),
        wakeups_(wakeups),
        host_(queues, plan, hook::initial_plan(policy), workers, stats, shared_state,
              sched::Draws(0, 0)) {
    plan_.publish(hook::initial_plan(policy));
  }

  // Runs the slow path of the policy if it is due and no other thread runs it.
  void adapt_if_due(Instant at) {
    if (at.ns() < next_adapt_ns_.load(std::memory_order_relaxed)) return;
    turn_.take([&] {
      if (at.ns() < next_adapt_ns_.load(std::memory_order_relaxed)) return;  // done meanwhile
      begin(at);
      const Nanos period = hook::adapt_period(policy_);
      if (period != Nanos::max()) {
        plan_.publish(hook::adapt(policy_, state_, host_));
        next_adapt_ns_.store((at + period).ns(), std::memory_order_relaxed);
      } else {
        next_adapt_ns_.store(Instant::never().ns(), std::memory_order_relaxed);
      }
    });
  }

  // Lets the policy push, on this thread or on the thread that already runs a step.
  void dispatch(Instant at) {
    turn_.take([&] {
      begin(at);
      hook::dispatch(policy_, state_, host_);
      host_.take_pushed([this](WorkerId worker) { wakeups_.wake(worker); });
    });
  }

 private:
  void begin(Instant at) {
    host_.set_now(at);
    host_.refresh_plan();
  }

  const P& policy_;
  PlanCell<typename P::Plan>& plan_;
  Wakeups<P>& wakeups_;
  Turn<> turn_;
  std::atomic<int64_t> next_adapt_ns_{0};  // relaxed: a hint; the turn orders the rest
  typename P::Central state_{};
  LiveHost<P> host_;
};

}  // namespace rubato
