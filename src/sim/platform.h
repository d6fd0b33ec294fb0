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
class SimPlatform : public sched::PlainPlatform {
 public:
  using Request = SimRequest;

  // The worker outlives this.
  explicit SimPlatform(SimWorker<P, Server>& worker) : worker_(worker) {}

  WorkerId me() const { return WorkerId{worker_.id()}; }
  typename SimContext<P, Server>::Host& host() const { return context().host; }
  Instant now() const { return context().now() + meter().spent(); }
  Instant look_at_clock() const { return now(); }

  // ---- Queues ---------------------------------------------------------------------------------

  // Where workers poll, the put costs the worker, and others see the request when the poll is over.
  [[gnu::always_inline]] bool enqueue(QueueRef q, Request& request) {
    if (!context().polled()) {
      if (!host().insert(q, &request)) return false;
      worker_.pool().offer(q);
      return true;
    }
    if (!host().put(q, &request)) return false;
    worker_.pool().offer_after_poll(q);
    return true;
  }
  // Requests that arrived meanwhile go first.
  bool put_back(QueueRef q, Request& request) {
    const bool has_polled = context().costs().preemption.clock == Clock::kSelf;
    if (context().polled() && !has_polled && q == worker_.own_queue()) worker_.poll();
    return host().put(q, &request);
  }
  // A timer core does not look into rings.
  void take_in() {
    if (context().polled() && context().costs().preemption.clock == Clock::kSelf) worker_.poll();
  }

  // ---- The client -----------------------------------------------------------------------------

  sched::Replied<Request> reply(Request& request) {
    const Nanos before = meter().spent();
    meter().spend(context().costs().worker.send);
    context().departures.complete(request, context().now(), now());
    if constexpr (Server::kElastic) worker_.pay_for_messages();
    meter().spend(context().costs().worker.after_send);
    worker_.read_clock();
    if (!worker_.counts_readings()) return {};
    return {.next = nullptr, .cost = meter().spent() - before, .lost = Nanos()};
  }
  Request* refuse(Request& request) {
    if (request.refusal != Refusal::kFull) meter().spend(context().costs().cores.refuse);
    context().departures.refuse(request, context().now());
    return nullptr;
  }

  // ---- Slices ---------------------------------------------------------------------------------

  // The worker pays its debt, and for the way to the request.
  void take_up(Request& request) {
    const Prices& costs = context().costs();
    if constexpr (Server::kElastic) context().server.cores().serves(me().value, context().now());
    worker_.serve_from_last_reading();
    meter().spend(worker_.take_debt());
    if (!request.has_started) {
      const Nanos saved = worker_.has_just_cut() ? costs.worker.cut_saves : Nanos();
      meter().spend(std::max(Nanos(), meter().draw(costs.worker.receive) - saved));
      if (context().setup.classify == Classify::kFeedback &&
          context().long_types[request.true_type]) {
        worker_.mark_long(request);
        meter().spend(costs.worker.feedback);
        worker_.read_clock();  // long_begin does
      }
      return;
    }
    --context().suspended;
    meter().spend(costs.worker.resume);
    if (!worker_.has_just_cut()) meter().spend(costs.worker.resume_alone);
    if (request.last_on == me().value) return;
    meter().spend(costs.worker.cache_transfer +
                  costs.noc.per_hop * mesh_hops(costs.noc, request.last_on, me().value));
    ++context().counters.migrations;
  }
  void arm(const Request&, Nanos quantum) {
    if (quantum != Nanos::max()) meter().spend(context().costs().preemption.arm);
  }
  Instant begin(Request&) const {
    return worker_.counts_readings() ? worker_.served_from() : now();
  }
  static bool is_abandoned(const Request& request) {
    return request.abandoned != nullptr && *request.abandoned;
  }
  Limiter* limiter() const { return context().limiter ? &*context().limiter : nullptr; }
  void begin_look() { host().begin_look(); }
  void end_look(bool found) { host().end_look(found); }
  int64_t suspended() const { return context().suspended; }

  // ---- Counters -------------------------------------------------------------------------------

  void note_arrived(const Request& request) {
    if constexpr (kCountsTotals) host().totals().note_arrived(request);
  }
  void note_finished(const Request& request) {
    if constexpr (kCountsTotals) host().totals().note_served(request, request.attained);
  }

 private:
  static constexpr bool kCountsTotals = SimContext<P, Server>::Host::kCountsTotals;

  SimContext<P, Server>& context() const { return worker_.context(); }
  auto& meter() const { return context().host.meter(); }

  SimWorker<P, Server>& worker_;
};

}  // namespace rubato::sim
