// SPDX-License-Identifier: Apache-2.0
//
// SlowPath<P, Server>: the policy's central hooks: `adapt`, once per period, which makes the plan,
// and `dispatch`, which a dispatcher calls after every event. One owner.
#pragma once

#include <cstdint>

#include "policy/archetype.h"
#include "policy/contract.h"
#include "sim/context.h"
#include "sim/worker_pool.h"

namespace rubato::sim {

template <Policy P, class Server>
class SlowPath {
 public:
  // All references outlive this.
  SlowPath(SimContext<P, Server>& context, WorkerPool<P, Server>& workers)
      : context_(context), workers_(workers) {}

  void start() {
    if (hook::adapt_period(context_.policy) != Nanos::max()) schedule();
  }

  // A period is over. The hook is called until all requests have come and no worker has one, or no
  // worker takes those that wait.
  void on_event() {
    auto& host = context_.host;
    host.call_as(SimContext<P, Server>::Host::kCentralCaller);
    host.publish(hook::adapt(context_.policy, central_, host));
    workers_.offer_all();
    const bool all_idle = context_.all_arrived() && no_worker_serves();
    const bool over = all_idle && context_.pool.in_use() == 0;
    fruitless_ = all_idle ? fruitless_ + 1 : 0;
    if (over || fruitless_ == kMostFruitless) {
      return context_.events.cancel(context_.sources.adapt());
    }
    schedule();
  }

  // After an event of `source`. The time that the dispatcher spends delays the arrivals behind it,
  // or the worker that dispatches.
  void dispatch(uint32_t source) {
    auto& host = context_.host;
    host.call_as(SimContext<P, Server>::Host::kCentralCaller);
    hook::dispatch(context_.policy, central_, host);
    if (context_.costs().dispatch_by == DispatchBy::kWorkers) return give_by_worker(source);
    if (!context_.dispatcher.take_free_look()) {
      workers_.dispatch(context_.now(), host.meter().spent());
    }
    while (const auto* given = host.next_given()) workers_.offer(given->queue);
  }

 private:
  static constexpr uint32_t kMostFruitless = 1000;

  void give_by_worker(uint32_t source) {
    const Nanos spent = context_.host.meter().spent() + context_.costs().worker.turn;
    if (context_.sources.is_worker(source)) workers_[source].spend_for_all(spent);
    while (const auto* given = context_.host.next_given()) workers_.offer(given->queue, spent);
  }

  void schedule() {
    context_.events.schedule(context_.sources.adapt(),
                             context_.now() + hook::adapt_period(context_.policy));
  }

  bool no_worker_serves() const {
    uint32_t at_rest = context_.idle.count();
    if constexpr (Server::kElastic) at_rest += workers_.size() - context_.server.cores().granted();
    return at_rest == workers_.size();
  }

  SimContext<P, Server>& context_;
  WorkerPool<P, Server>& workers_;
  typename P::Central central_{};
  uint32_t fruitless_ = 0;  // periods in a row with all workers idle
};

}  // namespace rubato::sim
