// SPDX-License-Identifier: Apache-2.0
//
// Managers<P>: the manager contexts of one runtime (policy/extensions.h). A context has no thread
// of its own: a worker of its group between two requests, an idle worker or the timer core runs a
// step of it, one at a time.
#pragma once

#include <memory>
#include <vector>

#include "runtime/live_host.h"
#include "runtime/turn.h"
#include "runtime/wakeups.h"

namespace rubato {

template <Policy P>
class Managers {
 public:
  // Everything that the contexts borrow outlives them.
  Managers(const P& policy, QueueSet<P>& queues, const PlanCell<typename P::Plan>& plan,
           uint32_t workers, const std::vector<const WorkerStats*>& stats,
           SharedState& shared_state,
           Wakeups<P>& wakeups)
      : policy_(policy), workers_(workers), wakeups_(wakeups) {
    for (uint32_t m = 0; m < managers(policy, workers); ++m) {
      managers_.push_back(std::make_unique<ManagerContext>(queues, plan, hook::initial_plan(policy),
                                                           workers, stats, shared_state,
                                                           ManagerId{m}));
    }
  }

  // Runs a step of the manager of that worker's group, or of every manager, on this thread or on
  // the one that already runs a step. Wakes the workers that a job was put to, and the groups whose
  // managers a message was sent to. Any thread.
  void step_for(WorkerId worker, Instant at) {
    step(*managers_[manager_of(policy_, worker, workers_).value], at);
  }
  void step_all(Instant at) {
    for (const auto& manager : managers_) step(*manager, at);
  }

  // Jobs that were sent from one manager to another; any thread.
  uint64_t sent() const {
    uint64_t sum = 0;
    for (const auto& manager : managers_) sum += manager->host.sent().value();
    return sum;
  }

 private:
  struct ManagerContext {
    ManagerContext(QueueSet<P>& queues, const PlanCell<typename P::Plan>& plan,
                   const typename P::Plan& initial, uint32_t workers,
                   const std::vector<const WorkerStats*>& stats, SharedState& shared_state,
                   ManagerId manager)
        : id(manager), host(queues, plan, initial, workers, stats, shared_state,
                                 sched::Draws(0, manager.value)) {}
    const ManagerId id;
    Turn<> turn;
    ManagerState<P> state{};
    LiveHost<P> host;
  };

  void step(ManagerContext& manager, Instant at) {
    manager.turn.take([&] {
      manager.host.set_now(at);
      manager.host.refresh_plan();
      static_cast<void>(hook::manage(policy_, manager.state, manager.id, manager.host));
      manager.host.take_pushed([this](WorkerId worker) { wakeups_.wake(worker); });
      manager.host.take_mailed([this](ManagerId to) { wakeups_.wake_group(to); });
    });
  }

  const P& policy_;
  const uint32_t workers_;
  Wakeups<P>& wakeups_;
  std::vector<std::unique_ptr<ManagerContext>> managers_;
};

}  // namespace rubato
