// SPDX-License-Identifier: Apache-2.0
//
// ClientArrivals<P, Server>: the packets that the clients of an elastic server send
// (sim/clients.h): requests, which are admitted by credits, and demand. One owner.
#pragma once

#include <cstdint>

#include "policy/contract.h"
#include "sim/clients.h"
#include "sim/context.h"
#include "sim/core_allocation.h"
#include "sim/elastic_cores.h"
#include "sim/worker_pool.h"

namespace rubato::sim {

template <Policy P, class Server>
class ClientArrivals {
 public:
  // All references outlive this.
  ClientArrivals(SimContext<P, Server>& context, WorkerPool<P, Server>& workers,
                 ElasticCores<P, Server>& cores)
      : context_(context), workers_(workers), cores_(cores) {}

  void start() { follow(); }

  // After every event: messages may have been sent.
  void follow() {
    const Instant next = clients().next();
    if (next == scheduled_) return;
    scheduled_ = next;
    context_.events.schedule(context_.sources.arrivals(), next);
  }

  void on_event() {
    scheduled_ = Instant::never();
    context_.events.cancel(context_.sources.arrivals());
    const Clients::Message message = clients().step();
    context_.server.expect();
    context_.arrivals = {clients().generated(), clients().generated_warm(), Nanos(),
                         clients().last_generated()};
    switch (message.kind) {
      case Clients::Kind::kNothing:
        return;
      case Clients::Kind::kRequest:
        return receive(message);
      case Clients::Kind::kDemand:
        context_.server.note_demand(message.session, message.demand, context_.now());
        if (nobody_takes_in()) return static_cast<void>(context_.server.take_messages());
        return worker_of(message.session).pay_for_messages();
    }
  }

 private:
  Clients& clients() const { return context_.server.clients(); }
  const CoreAllocation& allocation() const { return context_.server.cores(); }
  bool nobody_takes_in() const {
    return allocation().granted() == 0 && !allocation().interrupts();
  }
  // The worker that takes in a packet of this flow: its own, which the NIC wakes, or without such
  // interrupts another while that one is parked.
  SimWorker<P, Server>& worker_of(uint64_t flow) {
    const uint32_t own = context_.nic.steer(flow, context_.now());
    if (!allocation().interrupts()) return workers_[allocation().redirect(own)];
    if (allocation().state(own) == CoreAllocation::State::kParked) workers_[own].interrupt();
    return workers_[own];
  }

  void receive(const Clients::Message& message) {
    SimRequest* const request = context_.pool.borrow();
    request->arrive(message.offer, received_++, context_.now(), context_.warm_at);
    request->session = message.session;
    if (nobody_takes_in()) cores_.grant();
    SimWorker<P, Server>& worker = worker_of(request->flow);
    if (!context_.server.admits(message.session, message.demand)) {
      worker.owe(context_.costs().cores.refuse);
      return context_.departures.refuse(*request, context_.now());
    }
    worker.admit(*request);
  }

  SimContext<P, Server>& context_;
  WorkerPool<P, Server>& workers_;
  ElasticCores<P, Server>& cores_;
  Instant scheduled_ = Instant::never();  // the event ahead
  uint64_t received_ = 0;                 // requests
};

}  // namespace rubato::sim
