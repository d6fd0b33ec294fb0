// SPDX-License-Identifier: Apache-2.0
//
// SimPlatform<P, Site>: what a simulated worker lends to sched::Core: virtual time, queues with
// prices, and the engine that knows what becomes of a request. A handle. One owner, as everything
// in a simulation. (No control plane is simulated, and the requests of a flow do not wait for each
// other.)
#pragma once

#include <cstddef>

#include "policy/contract.h"
#include "sched/core.h"
#include "sim/request.h"
#include "sim/sim_host.h"

namespace rubato::sim {

template <Policy P, class Site>
class Engine;

template <Policy P, class Site>
class SimPlatform : public sched::PlainPlatform {
 public:
  using Request = SimRequest;

  SimPlatform(Engine<P, Site>& engine, uint32_t worker) : engine_(engine), worker_(worker) {}

  WorkerId me() const { return {worker_}; }
  SimHost<P>& host() const { return engine_.host_; }
  Instant now() const { return engine_.now_ + host().spent(); }
  Instant look_at_clock() const { return now(); }

  // Queues.
  bool enqueue(QueueRef q, Request& request) { return engine_.enqueue(q, request); }
  bool put_back(QueueRef q, Request& request) { return engine_.put_back(worker_, q, request); }
  void take_in() { engine_.take_in(worker_); }

  // The client.
  sched::Replied<Request> reply(Request& request) {
    engine_.reply(worker_, request);
    return {};
  }
  Request* refuse(Request& request) {
    if (request.refusal != Refusal::kFull) host().spend(engine_.costs_.cores.reject);
    engine_.refuse(&request);
    return nullptr;
  }

  // Slices.
  void take_up(Request& request) { engine_.take_up(worker_, request); }
  void arm(const Request&, Nanos quantum) { engine_.arm(quantum); }
  Instant begin(Request&) const { return now(); }
  int64_t suspended() const { return engine_.suspended_; }

  // What is counted.
  void note_arrived(const Request& request) { host().note_arrived(request); }
  void note_finished(const Request& request) { host().note_served(request, request.service); }

 private:
  Engine<P, Site>& engine_;
  uint32_t worker_;
};

}  // namespace rubato::sim
