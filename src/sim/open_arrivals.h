// SPDX-License-Identifier: Apache-2.0
//
// OpenArrivals<P, Server>: the requests of a static server on their way over the wire, the NIC and
// the dispatcher to a worker: those of an open-loop source, or those that a hosted server is sent
// (sim/hosted_server.h). One owner.
#pragma once

#include <algorithm>
#include <cstdint>

#include "policy/archetype.h"
#include "sim/context.h"
#include "sim/growing_ring.h"
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
        source_(context.setup.workload, context.setup.seed),
        has_dispatcher_(!Server::kIdeal && !kManages<P> &&
                        (kDispatches<P> || has_dispatcher(context.costs()))) {}

  void start() {
    if (hosted()) return;
    draw();
    schedule();
  }

  // A hosted server is sent a request.
  void send(const SentRequest& request) {
    underway_.push(request);
    if (underway_.size() > 1) return;
    draw();
    schedule();
  }

  // The next request can be seen by software, or the dispatcher is through with one. On an ideal
  // machine a dispatcher is through with each at once.
  void on_event() {
    if (!Server::kIdeal && has_dispatcher_) return on_dispatcher_event();
    SimRequest& request = arrived(coming_);
    draw_next();
    schedule();
    bring(request);
  }

 private:
  // A request that the net worker or the dispatcher has in hand, or that waits for it.
  struct Waiting {
    SentRequest request;
    Instant done;
  };
  // The first of those is through at that moment; never = there is none.
  static Instant done(GrowingRing<Waiting>& stage) {
    return stage.empty() ? Instant::never() : stage.front().done;
  }

  bool hosted() const { return context_.client() != nullptr; }

  // Each stage on the way keeps the order, so the next request is drawn only when this one has
  // reached the NIC.
  void draw_next() {
    if (hosted()) underway_.pop();
    draw();
  }

  void draw() {
    seen_ = Instant::never();
    if (hosted()) {
      if (underway_.empty()) return;
      coming_ = underway_.front();
    } else {
      if (drawn_ == context_.requests) return;
      source_.next(coming_.offer);
      ++drawn_;
    }
    if (!Server::kIdeal) context_.nic.expect(coming_.offer.flow);
    const Prices& costs = context_.costs();
    seen_ = std::max(coming_.offer.at + costs.network_rtt / 2 + costs.nic.pcie, context_.now());
  }

  void schedule() {
    const uint32_t me = context_.sources.arrivals();
    if (Server::kIdeal) return context_.events.schedule(me, seen_);
    context_.events.schedule(me, std::min({seen_, done(received_), done(waiting_)}));
  }

  void on_dispatcher_event() {
    if (done(waiting_) <= context_.now()) {
      const SentRequest request = leave(waiting_);
      schedule();
      return bring(arrived(request));
    }
    if (done(received_) <= context_.now()) {
      hand_to_dispatcher(leave(received_));
      return schedule();
    }
    context_.costs().net_worker.receive > Nanos() ? receive() : hand_to_dispatcher(coming_);
    draw_next();
    schedule();
  }

  void receive() {
    const Prices::NetWorker& price = context_.costs().net_worker;
    enter(received_, price.ring_capacity, coming_,
          [&] { return net_worker_.occupy(context_.now(), price.receive); });
  }

  void hand_to_dispatcher(const SentRequest& request) {
    enter(waiting_, context_.costs().dispatching.ring_capacity, request,
          [&] { return workers_.dispatch(context_.now(), context_.costs().dispatcher); });
  }

  // occupy() -> when the stage is through with it; not asked of a request that finds it full.
  template <class Occupy>
  void enter(GrowingRing<Waiting>& stage, uint32_t capacity, const SentRequest& request,
             Occupy&& occupy) {
    if (capacity > 0 && stage.size() >= capacity) {
      return context_.departures.lose(arrived(request));
    }
    stage.push({request, occupy()});
  }
  static SentRequest leave(GrowingRing<Waiting>& stage) {
    const SentRequest request = stage.front().request;
    stage.pop();
    return request;
  }

  SimRequest& arrived(const SentRequest& sent) {
    ArrivalTotals& arrivals = context_.arrivals;
    SimRequest* const request = context_.pool.borrow();
    const uint64_t number = hosted() ? sent.token : arrivals.arrived;
    request->arrive(sent.offer, number, context_.now(), context_.warm_at);
    if (hosted()) {
      request->priority = sent.priority;
      request->deadline = sent.deadline;
      request->abandoned = sent.abandoned;
    } else {
      arrivals.measured += request->measured ? 1 : 0;
    }
    arrivals.last = sent.offer.at;
    arrivals.work += sent.offer.service;
    ++arrivals.arrived;
    return *request;
  }

  void bring(SimRequest& request) {
    workers_[context_.nic.steer(request.flow, context_.now())].admit(request);
  }

  SimContext<P, Server>& context_;
  WorkerPool<P, Server>& workers_;
  RequestSource source_;
  const bool has_dispatcher_;
  SentRequest coming_;                // the next one to reach the NIC
  Instant seen_ = Instant::never();   // when it can be seen there
  uint64_t drawn_ = 0;                // of the source, so far
  Dispatcher net_worker_;
  GrowingRing<Waiting> received_, waiting_;  // by the net worker, for the dispatcher
  GrowingRing<SentRequest> underway_;  // to a hosted server, `coming_` first
};

}  // namespace rubato::sim
