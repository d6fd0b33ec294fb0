// SPDX-License-Identifier: Apache-2.0
//
// ManagerSchedule<P, Server>: the managers of groups: when each steps, and what that takes. One
// owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "policy/archetype.h"
#include "policy/contract.h"
#include "policy/extensions.h"
#include "sim/context.h"
#include "sim/worker_pool.h"

namespace rubato::sim {

template <Policy P, class Server>
class ManagerSchedule {
 public:
  // All references outlive this.
  ManagerSchedule(SimContext<P, Server>& context, WorkerPool<P, Server>& workers)
      : context_(context),
        workers_(workers),
        managers_(managers(context.policy, context.setup.workers)) {}

  uint32_t size() const { return static_cast<uint32_t>(managers_.size()); }

  void on_event(ManagerId id) { context_.pending_managers.add(id); }

  // After every event. A manager that is still at its last step looks when it is done with that.
  void run_pending() {
    while (!context_.pending_managers.empty()) {
      const ManagerId id = context_.pending_managers.take();
      const Manager& manager = managers_[id.value];
      if (manager.free_at > context_.now()) {
        schedule(id, std::min(manager.event, manager.free_at));
      } else {
        step(id);
      }
    }
  }

  // All managers do nothing for `length`.
  void stall(Nanos length) {
    for (uint32_t m = 0; m < size(); ++m) {
      managers_[m].free_at = std::max(managers_[m].free_at, context_.now()) + length;
      schedule(ManagerId{m}, managers_[m].event);
    }
  }

 private:
  struct Manager {
    ManagerState<P> state{};
    Instant free_at;                 // it is at its last step until then
    Instant due = Instant::never();  // of the step that the one before asked for
    Instant event = Instant::never();
  };

  void step(ManagerId id) {
    Manager& manager = managers_[id.value];
    auto& host = context_.host;
    const Instant now = context_.now();
    host.call_as(host.caller_of(id));
    spend_on_step(manager.due <= now);
    manager.due = hook::manage(context_.policy, manager.state, id, host);
    manager.free_at = now + host.meter().spent();
    if (by_workers() && context_.sources.is_worker(context_.source)) {
      workers_[context_.source].spend_for_all(host.meter().spent());
    }
    const bool over = context_.all_arrived() && context_.pool.in_use() == 0;
    const Instant look_at = std::min(manager.due, host.network().mailbox(id).look_at());
    schedule(id, over ? Instant::never() : look_at);
    while (const auto* given = host.next_given()) workers_.offer(given->queue, given->after);
    while (const ManagerId* to = host.network().next_with_jobs()) {
      const Instant arrives = host.network().mailbox(*to).look_at();
      if (arrives <= now) {
        context_.pending_managers.add(*to);
      } else {
        schedule(*to, std::min(managers_[to->value].event, arrives));
      }
    }
  }

  bool by_workers() const { return context_.costs().dispatch_by == DispatchBy::kWorkers; }
  void spend_on_step(bool due) {
    if (by_workers()) {
      context_.host.meter().spend(context_.costs().worker.turn);
    } else if (due) {
      context_.host.meter().spend(context_.costs().manager.step);
    }
  }

  // Not before the manager is free, and not at this very instant again.
  void schedule(ManagerId id, Instant at) {
    Manager& manager = managers_[id.value];
    if (at != Instant::never()) at = std::max({at, manager.free_at, context_.now() + Nanos(1)});
    if (at == manager.event) return;
    manager.event = at;
    context_.events.schedule(context_.sources.manager(id), at);
  }

  SimContext<P, Server>& context_;
  WorkerPool<P, Server>& workers_;
  std::vector<Manager> managers_;
};

}  // namespace rubato::sim
