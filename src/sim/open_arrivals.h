// SPDX-License-Identifier: Apache-2.0
//
// OpenArrivals<P, Server>: the requests of a static server on their way over the wire, the NIC and
// the dispatcher to a worker: those of an open-loop source, or those that a hosted server is sent
// (sim/hosted_server.h). One owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "policy/archetype.h"
#include "sim/context.h"
#include "sim/hosted_server.h"
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

  void start() {
    if (!hosted()) schedule_next();
  }

  // A hosted server is sent a request.
  void send(const SentRequest& request) {
    underway_.push_back({request, seen_at(request.offer.at)});
    if (underway_.size() == 1) schedule_first();
  }

  // The next request can be seen by software.
  void on_event() {
    if (hosted()) return receive();
    ArrivalTotals& arrivals = context_.arrivals;
    SimRequest* const request = context_.pool.borrow();
    request->arrive(coming_, arrivals.arrived, context_.now(), context_.warm_at);
    arrivals.measured += request->measured ? 1 : 0;
    arrivals.last = coming_.at;
    arrivals.work += coming_.service;
    ++arrivals.arrived;
    schedule_next();
    workers_[context_.nic.steer(request->flow, context_.now())].admit(*request);
  }

 private:
  struct Underway {
    SentRequest sent;
    Instant seen;
  };

  bool hosted() const { return context_.watch.client != nullptr; }

  void receive() {
    const SentRequest sent = underway_.front().sent;
    underway_.pop_front();
    schedule_first();
    SimRequest* const request = context_.pool.borrow();
    request->arrive(sent.offer, sent.token, context_.now(), context_.warm_at);
    request->priority = sent.priority;
    request->deadline = sent.deadline;
    ++context_.arrivals.arrived;
    context_.arrivals.last = sent.offer.at;
    workers_[context_.nic.steer(request->flow, context_.now())].admit(*request);
  }

  void schedule_first() {
    const uint32_t me = context_.sources.arrivals();
    if (underway_.empty()) return context_.events.cancel(me);
    context_.events.schedule(me, std::max(underway_.front().seen, context_.now()));
  }

  // When software can see a request that is sent at `sent`.
  Instant seen_at(Instant sent) {
    const Costs& costs = context_.costs;
    const Instant seen = sent + costs.network_rtt / 2 + costs.nic.pcie;
    const bool by_dispatcher = !kManages<P> && (kDispatches<P> || costs.dispatcher > Nanos());
    return by_dispatcher ? context_.dispatcher.occupy(seen, costs.dispatcher) : seen;
  }

  // Each stage on the way keeps the order, so the next request is drawn only when this one is
  // there.
  void schedule_next() {
    const uint32_t me = context_.sources.arrivals();
    if (context_.all_arrived()) return context_.events.cancel(me);
    coming_ = source_.next();
    context_.events.schedule(me, seen_at(coming_.at));
  }

  SimContext<P, Server>& context_;
  WorkerPool<P, Server>& workers_;
  RequestSource source_;
  Offer coming_;  // the next arrival
  std::deque<Underway> underway_;  // to a hosted server
};

}  // namespace rubato::sim
