// SPDX-License-Identifier: Apache-2.0
//
// Engine<P, ElasticSite>: requests that come from clients with sessions and are answered with
// credits, and workers whose cores are taken away and given back. Included by sim/engine.h only;
// see there and sim/site.h.
#pragma once

#include "sim/engine.h"

namespace rubato::sim {

// After every event: messages may have been sent.
template <Policy P, class Site>
void Engine<P, Site>::follow_clients() {
  const Instant next = site_.clients().next();
  if (next == followed_) return;
  followed_ = next;
  alarms_.set(arrivals_actor(), next);
}

template <Policy P, class Site>
void Engine<P, Site>::clients_step() {
  followed_ = Instant::never();  // the alarm has rung
  alarms_.clear(arrivals_actor());
  const Clients::Message message = site_.clients().step();
  arrived_ = site_.clients().generated();
  measured_ = site_.clients().generated_warm();
  last_arrival_ = site_.clients().last_generated();
  switch (message.kind) {
    case Clients::Kind::kNothing:
      return;
    case Clients::Kind::kRequest:
      return receive(message);
    case Clients::Kind::kDemand:
      site_.demanded(message.session, message.demand, now_);
      if (site_.granted() == 0) return static_cast<void>(site_.take_messages());
      return charge_messages(site_.redirect(nic_.steer(message.session, now_)));
  }
}

template <Policy P, class Site>
void Engine<P, Site>::receive(const Clients::Message& message) {
  const Offer& sent = message.offer;
  SimRequest* const request = pool_.borrow();
  request->arrived = now_;
  request->sent = sent.at;
  request->service = request->left = sent.service;
  request->flow = sent.flow;
  request->session = message.session;
  request->id = requests_received_++;
  request->true_type = sent.type;
  request->type = sent.seen_type + 1;
  request->measured = sent.at >= warm_at_;
  if (site_.granted() == 0) grant();
  const uint32_t w = site_.redirect(nic_.steer(request->flow, now_));
  if (!site_.admits(message.session, message.demand)) {
    cores_[w].owed += costs_.cores.reject;
    return refuse(request);
  }
  admit(request, w);
}

// The worker says how many more it may send, and whoever else may send again.
template <Policy P, class Site>
Instant Engine<P, Site>::answer(const SimRequest& request, bool served, Instant at) {
  const int64_t credit = site_.answered(request.session, served, now_);
  return site_.clients().answer(request.session, credit, at);
}

// What a worker has to send or receive besides its requests delays the next of those.
template <Policy P, class Site>
void Engine<P, Site>::charge_messages(uint32_t w) {
  const auto messages = static_cast<int64_t>(site_.take_messages());
  cores_[w].owed += costs_.cores.credit_message * messages;
}

// An idle worker is asked whether it goes on polling.
template <Policy P, class Site>
void Engine<P, Site>::ask(uint32_t w) {
  if (site_.parks_now(w, now_)) return park(w);
  alarms_.set(w, now_ + Site::kAskAgain);
}

// Requires a worker without a request. What still waits in its ring or its queue is for others.
template <Policy P, class Site>
void Engine<P, Site>::park(uint32_t w) {
  sit(w);
  while (polled() && !host_.ring(w).empty()) poll(w);
  if (idle_.has(w)) {
    idle_.remove(w);
    cores_[w].idle += std::max(cores_[w].free_at, now_) - cores_[w].free_at;
  }
  cores_[w].running = nullptr;
  cores_[w].free_at = now_;
  alarms_.clear(w);
  site_.park(w, now_, costs_.cores.park);
  ++counters_.parked;
  offer_polled();
  if (kOwnQueue && host_.waiting_in(own_queue(w)) > 0) offer(own_queue(w));
}

// Of the parked workers the last: where workers differ, that is the one that may serve most
// (policy/darc.h reserves the first ones).
template <Policy P, class Site>
void Engine<P, Site>::grant() {
  for (uint32_t w = setup_.workers; w-- > 0;) {
    if (site_.core(w) != Site::Core::kParked) continue;
    site_.wake(w, now_);
    cores_[w].idle += now_ - cores_[w].free_at;
    cores_[w].free_at = now_;
    cores_[w].wake = Wake::kAwake;
    return alarms_.set(w, std::max(now_, cores_[w].held_until) + costs_.cores.wake);
  }
}

template <Policy P, class Site>
void Engine<P, Site>::awake(uint32_t w) {
  overhead_ += now_ - cores_[w].free_at;
  site_.polls(w, now_);
  sit(w);
  choose(w);
}

// An idle one, else that whose oldest request waits least.
template <Policy P, class Site>
void Engine<P, Site>::release(const std::vector<Nanos>& delays) {
  uint32_t least = setup_.workers;
  for (uint32_t w = 0; w < setup_.workers; ++w) {
    if (!site_.available(w) || site_.leaving(w)) continue;
    if (site_.core(w) == Site::Core::kPolling && idle_.has(w)) return park(w);
    if (least == setup_.workers || delays[w] < delays[least]) least = w;
  }
  if (least < setup_.workers) site_.wants_back(least);
}

// How long requests have waited: per worker, and in queues that all share. Returns the longest, in
// terms of the delay that credits aim at.
template <Policy P, class Site>
Nanos Engine<P, Site>::measure_delays() {
  std::fill(delays_.begin(), delays_.end(), Nanos());
  common_delay_ = Nanos();
  Nanos longest;
  const sched::DelayScale scale = delay_scale();
  host_.for_each_head([&](QueueRef q, const Job& job) {
    const auto& request = static_cast<const SimRequest&>(job);
    const bool own = P::kQueues[q.spec].scope == Scope::kPerWorker;
    Nanos& delay = own ? delays_[q.lane] : common_delay_;
    delay = std::max(delay, now_ - std::max(request.arrived, request.put_back));
    longest = std::max(longest, scale.of(request, now_));
  });
  return longest;
}

// A class that takes longer may wait longer; of a request that was cut all of its waiting counts,
// but none of its service (docs/decisions/011-overload-by-class.md).
template <Policy P, class Site>
sched::DelayScale Engine<P, Site>::delay_scale() {
  using By = sched::DelayScale::By;
  constexpr By kBy = P::kPreempts != Preempts::kNothing            ? By::kClass
                     : kClaimsMayStarve<P> == MayStarve::kLong ? By::kType
                                                               : By::kNothing;
  sched::DelayScale scale(setup_.elastic->delay_by_class ? kBy : By::kNothing,
                   setup_.elastic->credits.target_delay);
  host_.sit(SimHost<P>::kCentralSeat);
  scale.learn(host_);
  return scale;
}

template <Policy P, class Site>
void Engine<P, Site>::tick() {
  const bool done = arrived_ == setup_.requests && pool_.in_use() == 0 &&
                    site_.clients().next() == Instant::never();
  if (done) {
    site_.clients().give_up();
    for (uint32_t w = 0; w < setup_.workers; ++w) alarms_.clear(w);
    return alarms_.clear(tick_actor());
  }
  site_.note_delay(measure_delays());
  const bool unserved = site_.granted() == 0 && host_.waiting() > 0;
  const overload::CoreChange change = site_.tick(now_, delays_, common_delay_, unserved);
  if (change == overload::CoreChange::kGrant) grant();
  if (change == overload::CoreChange::kRelease) release(delays_);
  site_.update_credits(now_);
  if (site_.granted() > 0) charge_messages(site_.redirect(tick_turn_++ % setup_.workers));
  if (trace_ != nullptr) trace_site();
  alarms_.set(tick_actor(), now_ + site_.interval());
}

template <Policy P, class Site>
void Engine<P, Site>::trace_site() {
  const auto level = [&](const char* name, int64_t value) {
    trace_->depth(name, 0, now_, static_cast<uint32_t>(std::max<int64_t>(value, 0)));
  };
  level("cores granted", site_.granted());
  level("credits", site_.pool().total());
  level("credits issued", site_.pool().issued());
  level("sessions drained", site_.pool().drained());
  level("delay in us", site_.delay().count() / 1000);
}

}  // namespace rubato::sim
