// SPDX-License-Identifier: Apache-2.0
//
// SimPlatform<P, Server>: the services that a simulated worker lends to sched::Core: virtual time,
// queues with prices, and the way of a request to its client. A handle. One owner, as everything in
// a simulation. (No control plane is simulated, and the requests of a flow do not wait for each
// other.)
#pragma once

#include <cstddef>

#include "policy/contract.h"
#include "sched/core.h"
#include "sim/context.h"
#include "sim/request.h"
#include "sim/sim_host.h"

namespace rubato::sim {

template <Policy P, class Server>
class SimWorker;
template <Policy P, class Server>
class WorkerPool;

template <Policy P, class Server>
class SimPlatform : public sched::PlainPlatform {
 public:
  using Request = SimRequest;

  // All references outlive this.
  SimPlatform(SimContext<P, Server>& context, WorkerPool<P, Server>& workers,
              SimWorker<P, Server>& worker, WorkerId me)
      : context_(context), workers_(workers), worker_(worker), me_(me) {}

  WorkerId me() const { return me_; }
  typename SimContext<P, Server>::Host& host() const { return context_.host; }
  Instant now() const { return context_.now() + meter().spent(); }
  Instant look_at_clock() const { return now(); }

  // ---- Queues ---------------------------------------------------------------------------------

  // Where workers poll, the put costs the worker, and others see the request when the poll is over.
  [[gnu::always_inline]] bool enqueue(QueueRef q, Request& request) {
    if (!context_.polled()) {
      if (!host().insert(q, &request)) return false;
      workers_.offer(q);
      return true;
    }
    if (!host().put(q, &request)) return false;
    workers_.offer_after_poll(q);
    return true;
  }
  // Requests that arrived meanwhile go first.
  bool put_back(QueueRef q, Request& request) {
    const bool has_polled = context_.costs().preemption.clock == Clock::kSelf;
    if (context_.polled() && !has_polled && q == worker_.own_queue()) worker_.poll();
    return host().put(q, &request);
  }
  // A timer core does not look into rings.
  void take_in() {
    if (context_.polled() && context_.costs().preemption.clock == Clock::kSelf) worker_.poll();
  }

  // ---- The client -----------------------------------------------------------------------------

  sched::Replied<Request> reply(Request& request) {
    const Nanos before = meter().spent();
    meter().spend(context_.costs().worker.send);
    context_.departures.complete(request, context_.now(), now());
    if constexpr (Server::kElastic) worker_.pay_for_messages();
    meter().spend(context_.costs().worker.after_send);
    worker_.read_clock();
    if (!worker_.counts_readings()) return {};
    return {.next = nullptr, .cost = meter().spent() - before, .lost = Nanos()};
  }
  Request* refuse(Request& request) {
    if (request.refusal != Refusal::kFull) meter().spend(context_.costs().cores.refuse);
    context_.departures.refuse(request, context_.now());
    return nullptr;
  }

  // ---- Slices ---------------------------------------------------------------------------------

  // The worker pays its debt, and for the way to the request.
  void take_up(Request& request) {
    const Prices& costs = context_.costs();
    if constexpr (Server::kElastic) context_.server.cores().serves(me_.value, context_.now());
    worker_.serve_from_last_reading();
    meter().spend(worker_.take_debt());
    if (!request.has_started) {
      const Nanos saved = worker_.has_just_cut() ? costs.worker.cut_saves : Nanos();
      meter().spend(std::max(Nanos(), meter().draw(costs.worker.receive) - saved));
      if (context_.setup.classify == Classify::kFeedback &&
          context_.long_types[request.true_type]) {
        worker_.mark_long(request);
        meter().spend(costs.worker.feedback);
        worker_.read_clock();  // long_begin does
      }
      return;
    }
    --context_.suspended;
    meter().spend(costs.worker.resume);
    if (request.last_on == me_.value) return;
    meter().spend(costs.worker.cache_transfer +
                  costs.noc.per_hop * mesh_hops(costs.noc, request.last_on, me_.value));
    ++context_.counters.migrations;
  }
  void arm(const Request&, Nanos quantum) {
    if (quantum != Nanos::max()) meter().spend(context_.costs().preemption.arm);
  }
  Instant begin(Request&) const {
    return worker_.counts_readings() ? worker_.served_from() : now();
  }
  static bool is_abandoned(const Request& request) {
    return request.abandoned != nullptr && *request.abandoned;
  }
  Limiter* limiter() const { return context_.limiter ? &*context_.limiter : nullptr; }
  void begin_look() { host().begin_look(); }
  void end_look(bool found) { host().end_look(found); }
  int64_t suspended() const { return context_.suspended; }

  // ---- Counters -------------------------------------------------------------------------------

  void note_arrived(const Request& request) {
    if constexpr (kCountsTotals) host().totals().note_arrived(request);
  }
  void note_finished(const Request& request) {
    if constexpr (kCountsTotals) host().totals().note_served(request, request.attained);
  }

 private:
  static constexpr bool kCountsTotals = SimContext<P, Server>::Host::kCountsTotals;

  auto& meter() const { return context_.host.meter(); }

  SimContext<P, Server>& context_;
  WorkerPool<P, Server>& workers_;
  SimWorker<P, Server>& worker_;
  const WorkerId me_;
};

}  // namespace rubato::sim
