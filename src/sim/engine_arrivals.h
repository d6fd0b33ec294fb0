// SPDX-License-Identifier: Apache-2.0
//
// Engine<P>, the way in: client, wire, NIC, dispatcher, ring, queue. Included by sim/engine.h only;
// see there.
#pragma once

#include "sim/engine.h"

namespace rubato::sim {

// The alarm rings when the request can be seen by software. Each stage before that keeps the order,
// so the next request is drawn only when this one is there.
template <Policy P, class Site>
void Engine<P, Site>::next_arrival() {
  if (arrived_ == setup_.requests) return alarms_.clear(arrivals_actor());
  coming_ = source_.next();
  Instant seen = coming_.at + costs_.network_rtt / 2 + costs_.nic.pcie;
  if (!kManages<P> && (kDispatches<P> || costs_.dispatcher > Nanos())) {
    dispatcher_free_ = std::max(dispatcher_free_, seen) + costs_.dispatcher;
    seen = dispatcher_free_;
  }
  alarms_.set(arrivals_actor(), seen);
}

template <Policy P, class Site>
void Engine<P, Site>::arrive() {
  SimRequest* const request = pool_.borrow();
  request->arrived = now_;
  request->sent = coming_.at;
  request->service = request->left = coming_.service;
  request->flow = coming_.flow;
  request->id = arrived_;
  request->true_type = coming_.type;
  request->type = coming_.seen_type + 1;  // to a policy, type 0 is unknown
  request->measured = coming_.at >= warm_at_;
  measured_ += request->measured ? 1 : 0;
  last_arrival_ = coming_.at;
  ++arrived_;
  next_arrival();
  admit(request, nic_.steer(request->flow, now_));
}

template <Policy P, class Site>
void Engine<P, Site>::admit(SimRequest* request, uint32_t w) {
  if (setup_.classify == Classify::kDeclared) {
    request->size_hint = request->service;
    if (long_types_[request->true_type]) request->job_class = JobClass::kLong;
  }
  if (polled()) return into_ring(request, w);
  sit(w);
  cores_[w].sched.admit(*request);
}

// What is delivered where workers poll costs them, and others see it when the poll is over.
template <Policy P, class Site>
[[gnu::always_inline]] inline bool Engine<P, Site>::enqueue(QueueRef q, SimRequest& request) {
  if (!polled()) {
    if (!host_.insert(q, &request)) return false;
    offer(q);
    return true;
  }
  if (!host_.put(q, &request)) return false;
  if (polled_into_.empty() || polled_into_.back() != q) polled_into_.push_back(q);
  return true;
}

template <Policy P, class Site>
void Engine<P, Site>::into_ring(SimRequest* request, uint32_t w) {
  if (!host_.ring(w).put(request, costs_.nic.ring_capacity)) {
    if constexpr (Site::kElastic) return refuse(request);
    if (request->measured) recorder_.lost(request->true_type);
    return pool_.give_back(request);
  }
  if (idle_.has(w)) wake(w);
}

// A worker asks its ring when its own queue has run dry, and takes a burst.
template <Policy P, class Site>
void Engine<P, Site>::poll(uint32_t w) {
  JobQueue& ring = host_.ring(w);
  host_.spend(costs_.worker.poll);
  for (uint32_t n = 0; n < costs_.nic.burst && !ring.empty(); ++n) {
    auto* const request = static_cast<SimRequest*>(ring.take());
    if (costs_.latency_from == LatencyFrom::kReception) request->sent = now_;
    cores_[w].sched.admit(*request);
  }
}

template <Policy P, class Site>
void Engine<P, Site>::refuse(SimRequest* request) {
  if (request->measured) recorder_.refused(request->true_type);
  if constexpr (Site::kElastic) answer(*request, false, now_ + costs_.cores.reject);
  pool_.give_back(request);
}

}  // namespace rubato::sim
