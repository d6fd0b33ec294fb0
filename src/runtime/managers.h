// SPDX-License-Identifier: Apache-2.0
//
// Managers<P>: the manager seats of one runtime (policy/contract.h). A seat has no thread: whoever
// comes by, a worker of its group between two requests, an idle worker, the timer core, runs a step
// of it, one at a time.
//
// Ordering: a seat's flag is taken with acquire and cleared with release, so each holder sees the
// state that the one before left.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "runtime/live_host.h"

namespace rubato {

template <Policy P>
class Managers {
 public:
  // What the seats borrow outlives them.
  Managers(const P& policy, QueueSet<P>& queues, const PlanCell<typename P::Plan>& plan,
           uint32_t workers, const std::vector<const WorkerStats*>& stats, Commons& commons)
      : policy_(policy), workers_(workers) {
    for (uint32_t m = 0; m < managers(policy, workers); ++m) {
      seats_.push_back(std::make_unique<Seat>(queues, plan, hook::initial_plan(policy), workers,
                                              stats, commons, m));
    }
  }

  uint32_t count() const { return static_cast<uint32_t>(seats_.size()); }

  // A step, by that worker, of the manager of its group. True = something was put or sent that
  // others may have to be woken for. Any thread; at once if somebody else is at it.
  bool step_for(WorkerId worker, Instant at) {
    return step(manager_of(policy_, worker, workers_).value, worker.value, at);
  }

  // A step of every manager.
  bool step_all(Instant at) {
    bool pushed = false;
    for (uint32_t m = 0; m < count(); ++m) pushed |= step(m, UINT32_MAX, at);
    return pushed;
  }

  // Jobs that were sent from one manager to another; any thread.
  uint64_t sent() const {
    uint64_t sum = 0;
    for (const auto& seat : seats_) sum += seat->host.sent().value();
    return sum;
  }

 private:
  struct Seat {
    Seat(QueueSet<P>& queues, const PlanCell<typename P::Plan>& plan,
         const typename P::Plan& initial, uint32_t workers,
         const std::vector<const WorkerStats*>& stats, Commons& commons, uint64_t seed)
        : host(queues, plan, initial, workers, stats, commons, seed) {}
    std::atomic_flag busy{};
    ManagerState<P> state{};
    LiveHost<P> host;
  };

  bool step(uint32_t m, uint32_t by, Instant at) {
    Seat& seat = *seats_[m];
    if (seat.busy.test_and_set(std::memory_order_acquire)) return false;
    seat.host.set_now(at);
    seat.host.refresh_plan();
    const uint64_t puts = seat.host.puts();
    const uint64_t sent = seat.host.sent().value();
    static_cast<void>(hook::manage(policy_, seat.state, ManagerId{m}, seat.host));
    const QueueRef last = seat.host.last_put();
    const bool to_itself = seat.host.puts() == puts + 1 && last.lane == by &&
                           P::kQueues[last.spec].scope == Scope::kPerWorker;
    const bool pushed =
        seat.host.sent().value() != sent || (seat.host.puts() != puts && !to_itself);
    seat.busy.clear(std::memory_order_release);
    return pushed;
  }

  const P& policy_;
  uint32_t workers_;
  std::vector<std::unique_ptr<Seat>> seats_;
};

}  // namespace rubato
