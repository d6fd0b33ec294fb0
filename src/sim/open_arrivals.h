// SPDX-License-Identifier: Apache-2.0
//
// OpenArrivals<P, Server>: open-loop load on a static server: from the source of requests over the
// wire, the NIC and the dispatcher to a worker. One owner.
#pragma once

#include <cstdint>

#include "policy/archetype.h"
#include "sim/context.h"
#include "sim/worker_pool.h"
#include "workload/source.h"

namespace rubato::sim {

template <Policy P, class Server>
class OpenArrivals {
 public:
  // All references outlive this.
  OpenArrivals(SimContext<P, Server>& context, WorkerPool<P, Server>& workers)
      : context_(context),
        workers_(workers),
        source_(context.setup.workload, context.setup.seed) {}

  void start() { schedule_next(); }

  // The next request can be seen by software.
  void on_event() {
    ArrivalTotals& arrivals = context_.arrivals;
    SimRequest* const request = context_.pool.borrow();
    request->arrive(coming_, arrivals.arrived, context_.now(), context_.warm_at);
    arrivals.measured += request->measured ? 1 : 0;
    arrivals.last = coming_.at;
    ++arrivals.arrived;
    schedule_next();
    workers_[context_.nic.steer(request->flow, context_.now())].admit(*request);
  }

 private:
  // Each stage on the way keeps the order, so the next request is drawn only when this one is
  // there.
  void schedule_next() {
    const uint32_t me = context_.sources.arrivals();
    if (context_.all_arrived()) return context_.events.cancel(me);
    const Costs& costs = context_.costs;
    coming_ = source_.next();
    Instant seen = coming_.at + costs.network_rtt / 2 + costs.nic.pcie;
    if (!kManages<P> && (kDispatches<P> || costs.dispatcher > Nanos())) {
      seen = context_.dispatcher.occupy(seen, costs.dispatcher);
    }
    context_.events.schedule(me, seen);
  }

  SimContext<P, Server>& context_;
  WorkerPool<P, Server>& workers_;
  RequestSource source_;
  Offer coming_;  // the next arrival
};

}  // namespace rubato::sim
