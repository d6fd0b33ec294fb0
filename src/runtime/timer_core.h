// SPDX-License-Identifier: Apache-2.0
//
// TimerCore<P>: Algorithm 5.3 of Synergy as one poll() step. It watches the wait queue (adapt) and
// asks workers whose slice is over to preempt, if the policy sees a gain. A thread of the runtime
// runs it in a loop, or the embedder calls it; one caller at a time. Never blocks.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "policy/archetype.h"
#include "runtime/live_worker.h"

namespace rubato {

template <Policy P>
class TimerCore {
 public:
  TimerCore(RuntimeState<P>& shared, std::vector<std::unique_ptr<LiveWorker<P>>>& workers)
      : shared_(shared),
        workers_(workers),
        interrupts_(is_asynchronous(shared.options.preempt)),
        retries_(shared.options.workers),
        host_(shared.queues, shared.plan, hook::initial_plan(shared.policy),
              shared.options.workers, shared.worker_stats, shared.shared_state,
              sched::Draws(0, 0)) {}

  // True if a slice is armed, so that the next poll should come soon.
  bool poll() {
    host_.set_now(now());
    shared_.central.adapt_if_due(host_.now());
    if constexpr (kDispatches<P>) shared_.central.dispatch(host_.now());
    if constexpr (kManages<P>) shared_.managers.step_all(host_.now());
    host_.refresh_plan();
    bool armed = false;
    for (uint32_t i = 0; i < workers_.size(); ++i) armed |= look_at({i});
    return armed;
  }

 private:
  static constexpr Nanos kRetryFirst = Nanos::micros(50);
  static constexpr Nanos kRetryMost = Nanos::millis(1);
  struct Retry {
    Instant at;  // when a preemption that was put off is requested again
    Nanos after = kRetryFirst;
  };

  bool look_at(WorkerId id) {
    TimerSlot& slot = workers_[id.value]->preempter().slice().slot();
    if (interrupts_) return look_at_state(id, slot);
    const uint64_t slice = slot.armed.load(std::memory_order_acquire);
    if (slice == 0) return false;
    if (is_due(id, slot)) {
      slot.asked.store(slice, std::memory_order_release);
      checkpoint_expire(slot.budget.load(std::memory_order_relaxed));
    }
    return true;
  }

  // With interrupts: one interrupt per slice, and again after a while if it was put off.
  bool look_at_state(WorkerId id, TimerSlot& slot) {
    const PreemptLook seen = slot.state.look();
    Retry& retry = retries_[id.value];
    switch (seen.phase()) {
      case PreemptPhase::kArmed:
        if (is_due(id, slot)) ask(id, slot, seen, retry = {});
        return true;
      case PreemptPhase::kDeferred:
        if (host_.now() >= retry.at) ask(id, slot, seen, retry);
        return true;
      default:
        return seen.phase() != PreemptPhase::kIdle;
    }
  }

  void ask(WorkerId id, TimerSlot& slot, PreemptLook seen, Retry& retry) {
    if (!slot.state.request(seen)) return;
    workers_[id.value]->preempter().interrupt();
    retry.at = host_.now() + retry.after;
    retry.after = std::min(retry.after * 2, kRetryMost);
  }

  // True if the slice is over and a request waits. If none waits, the slice is renewed, unless the
  // worker has started another one meanwhile.
  bool is_due(WorkerId id, TimerSlot& slot) {
    int64_t deadline = slot.deadline_ns.load(std::memory_order_relaxed);
    if (host_.now().ns() < deadline) return false;
    if (somebody_waits(id, slot.job.load(host_.now()))) return true;
    const int64_t quantum = slot.quantum_ns.load(std::memory_order_relaxed);
    slot.deadline_ns.compare_exchange_strong(deadline, host_.now().ns() + quantum,
                                             std::memory_order_relaxed);
    return false;
  }

  // (While the runtime stops, the worker must check whether it is time to give up.)
  bool somebody_waits(WorkerId id, const Job& job) {
    return !shared_.shutdown.running() || shared_.groups.depth(id) > 0 ||
           hook::expired(shared_.policy, job, id, host_) == SliceDecision::kPreempt ||
           shared_.datapath.queue(id).pending();
  }

  RuntimeState<P>& shared_;
  std::vector<std::unique_ptr<LiveWorker<P>>>& workers_;
  const bool interrupts_;
  std::vector<Retry> retries_;
  LiveHost<P> host_;
};

}  // namespace rubato
