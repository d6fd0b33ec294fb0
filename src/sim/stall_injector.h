// SPDX-License-Identifier: Apache-2.0
//
// StallInjector<P, Server>: takes cores away for a while, as the machine of the cost file does
// (sim/stalls.h). For the core time stands still. Other workers may take the requests in its queue
// meanwhile, as from any busy worker. One owner.
#pragma once

#include <cstdint>

#include "policy/contract.h"
#include "sim/context.h"
#include "sim/manager_schedule.h"
#include "sim/stalls.h"
#include "sim/worker_pool.h"

namespace rubato::sim {

template <Policy P, class Server>
class StallInjector {
 public:
  // All references outlive this.
  StallInjector(SimContext<P, Server>& context, WorkerPool<P, Server>& workers,
                ManagerSchedule<P, Server>& managers)
      : context_(context),
        workers_(workers),
        managers_(managers),
        stalls_(context.costs().stalls, context.setup.workers, context.setup.seed) {}

  void start() {
    if (stalls_.any()) schedule_next();
  }

  // `before` is when the event before happened: the run ends there if nothing else is to come.
  void on_event(Instant before) {
    context_.dispatcher.look_free_of_charge(true);
    context_.events.cancel(context_.sources.stalls());
    if (context_.events.empty() && !hosted()) return context_.host.meter().end_at(before);
    if (stalls_.of_all_cores()) {
      for (uint32_t w = 0; w < workers_.size(); ++w) workers_[w].stall(coming_.length);
      stall_the_rest();
    } else {
      workers_[coming_.core].stall(coming_.length);
    }
    schedule_next();
  }

 private:
  // Requests may come at any time.
  bool hosted() const { return context_.watch.client != nullptr; }

  void schedule_next() {
    coming_ = stalls_.next();
    context_.events.schedule(context_.sources.stalls(), coming_.at);
  }

  // The whole machine stands still, also the parts that are no worker.
  void stall_the_rest() {
    const Nanos length = coming_.length;
    context_.dispatcher.occupy(context_.now(), length);
    context_.timer_core.occupy(context_.now(), length);
    context_.events.postpone(context_.sources.adapt(), length);
    if constexpr (Server::kElastic) context_.events.postpone(context_.sources.cores(), length);
    managers_.stall(length);
  }

  SimContext<P, Server>& context_;
  WorkerPool<P, Server>& workers_;
  ManagerSchedule<P, Server>& managers_;
  Stalls stalls_;
  Stall coming_;
};

}  // namespace rubato::sim
