// SPDX-License-Identifier: Apache-2.0
//
// Engine<P>, the workers: what they choose, how long they run it, who interrupts them. Included by
// sim/engine.h only; see there.
#pragma once

#include "sim/engine.h"

namespace rubato::sim {

// Worker `w` is free at now() and has spent() so far.
template <Policy P, class Site>
void Engine<P, Site>::choose(uint32_t w) {
  if (polled() && host_.waiting_in(own_queue(w)) == 0) poll(w);
  SimRequest* request = look(w);
  while (request != nullptr && !begin(w, request)) request = look(w);
  if (request == nullptr) rest(w);
  offer_polled();
}

// Nobody idles before its ring is empty, even if what it takes from there is for others.
template <Policy P, class Site>
SimRequest* Engine<P, Site>::look(uint32_t w) {
  SimRequest* request = cores_[w].sched.next();
  while (request == nullptr && polled() && !host_.ring(w).empty()) {
    poll(w);
    request = cores_[w].sched.next();
  }
  return request;
}

template <Policy P, class Site>
void Engine<P, Site>::rest(uint32_t w) {
  Core& core = cores_[w];
  if (setup_.shedding) rested_ = w;
  core.running = nullptr;
  core.free_at = now_ + host_.spent();
  overhead_ += host_.spent();
  if (!idle_.has(w)) idle_.add(w);
  alarms_.clear(w);
  if constexpr (Site::kElastic) {
    site_.polls(w, core.free_at);
    if (!site_.rule_parks()) return;
    core.wake = Wake::kAsk;
    alarms_.set(w, core.free_at + Site::kAskAgain);
  }
}

// An idle worker looks around, at what will be there `after` a while. False = it found nothing,
// which costs it nothing: it was looking anyway.
template <Policy P, class Site>
bool Engine<P, Site>::wake(uint32_t w, Nanos after) {
  Core& core = cores_[w];
  sit(w);
  const uint64_t polled_before = host_.ring(w).consumed();
  if (polled() && host_.waiting_in(own_queue(w)) == 0 && !host_.ring(w).empty()) poll(w);
  SimRequest* const request = look(w);
  if (request == nullptr) {
    if (host_.ring(w).consumed() == polled_before) return false;
    core.idle += std::max(core.free_at, now_) - core.free_at;
    core.free_at = std::max(core.free_at, now_) + host_.spent();  // it worked for others
    overhead_ += host_.spent();
    offer_polled();
    return false;
  }
  idle_.remove(w);
  // What it was at counted as overhead when it began; to notice is to idle.
  const Nanos still_busy = std::max(core.free_at, now_) - now_;
  const Nanos pause = std::max(still_busy, after + costs_.worker.notice);
  host_.spend(pause);
  overhead_ -= pause;
  core.idle += now_ + pause - core.free_at;
  if (!begin(w, request)) choose(w);
  offer_polled();
  return true;
}

// Something was put into q: idle workers that could find it look. Of several the next in turn. A
// batch that one of them steals may give work to others.
template <Policy P, class Site>
void Engine<P, Site>::offer(QueueRef q, Nanos after) {
  const QueueSpec& spec = P::kQueues[q.spec];
  if (kManages<P> && spec.scope == Scope::kPerManager) return offer_group(q);
  if (idle_.empty()) return;
  if (spec.scope == Scope::kPerWorker) {
    if (idle_.has(q.lane)) wake(q.lane, after);
    if (spec.sharing == Sharing::kOwner) return;
  }
  const uint64_t moved = host_.moved();
  uint32_t asked = 0;
  while (asked < setup_.workers && !idle_.empty() &&
         (host_.waiting_in(q) > 0 || host_.moved() != moved)) {
    const uint32_t skip = idle_.find(idle_turn_, setup_.workers);
    const uint32_t unwrapped = idle_turn_ + skip;
    const uint32_t w = unwrapped < setup_.workers ? unwrapped : unwrapped - setup_.workers;
    idle_turn_ = w + 1 == setup_.workers ? 0 : w + 1;
    asked += skip + 1;
    if (asked > setup_.workers) break;
    if (!wake(w, after) && interchangeable(policy_)) break;
  }
}

template <Policy P, class Site>
void Engine<P, Site>::offer_group(QueueRef q) {
  poke(ManagerId{q.lane});
  if (P::kQueues[q.spec].sharing != Sharing::kShared) return;
  for (uint32_t w = idle_.find(0, setup_.workers); w < setup_.workers && host_.waiting_in(q) > 0;) {
    if (group_of(w).value == q.lane) wake(w);
    ++w;
    if (w < setup_.workers) w += idle_.find(w, setup_.workers - w);
  }
}

// What a worker took from its ring can be seen by others once it has chosen itself.
template <Policy P, class Site>
void Engine<P, Site>::offer_polled() {
  while (!polled_into_.empty()) {
    const QueueRef q = polled_into_.back();
    polled_into_.pop_back();
    offer(q);
  }
}

template <Policy P, class Site>
void Engine<P, Site>::offer_all() {
  for (uint32_t w = 0; w < setup_.workers && host_.waiting() > 0; ++w) {
    if (idle_.has(w)) wake(w);
  }
}

template <Policy P, class Site>
Nanos Engine<P, Site>::transfer(const SimRequest& request, uint32_t w) const {
  return costs_.worker.cache_transfer +
         costs_.noc.per_hop * mesh_hops(costs_.noc, request.last_on, w);
}

// The request starts, or goes on, once the worker has paid what it spent on the way. False: it was
// refused instead.
template <Policy P, class Site>
bool Engine<P, Site>::begin(uint32_t w, SimRequest* request) {
  Core& core = cores_[w];
  if (!core.sched.start(*request)) {
    turned_away_ = true;
    if constexpr (kManages<P>) poke(group_of(w));
    return false;
  }
  overhead_ += host_.spent();
  core.running = request;
  core.slice_start = now_ + host_.spent();
  if (trace_ != nullptr && core.slice_start > now_) {
    trace_->span(w, "overhead", now_, core.slice_start);
  }
  core.finish_at = core.slice_start + request->left;
  const Nanos quantum = core.sched.quantum();
  core.slice_end = quantum == Nanos::max() ? Instant::never() : core.slice_start + quantum;
  request->last_on = w;
  set_alarm(w);
  return true;
}

template <Policy P, class Site>
void Engine<P, Site>::take_up(uint32_t w, SimRequest& request) {
  Core& core = cores_[w];
  if constexpr (Site::kElastic) site_.serves(w, now_);
  host_.spend(core.owed);
  core.owed = Nanos();
  if (!request.has_started) {
    host_.spend(costs_.worker.receive);
    if (setup_.classify == Classify::kFeedback && long_types_[request.true_type]) {
      core.sched.mark_long(request, request.priority);
      host_.spend(costs_.worker.feedback);
    }
    return;
  }
  --suspended_;
  host_.spend(costs_.worker.resume);
  if (request.last_on != w) {
    host_.spend(transfer(request, w));
    ++counters_.migrations;
  }
}

template <Policy P, class Site>
void Engine<P, Site>::arm(Nanos quantum) {
  if (quantum != Nanos::max()) host_.spend(costs_.preemption.arm);
}

// The end of the slice is seen late: by the timer core on its next scan, or as late as timers are.
template <Policy P, class Site>
void Engine<P, Site>::set_alarm(uint32_t w) {
  Core& core = cores_[w];
  Instant looked = core.slice_end;
  if (looked < core.finish_at) {
    if (costs_.preemption.clock == Clock::kSelf) {
      looked = looked + host_.draw(costs_.preemption.overshoot);
    } else if (costs_.preemption.scan > Nanos()) {
      const int64_t pass = costs_.preemption.scan.count() * setup_.workers;
      looked = looked + Nanos(prng_.below(static_cast<uint32_t>(pass)));
    }
  }
  const bool cut = looked < core.finish_at;
  core.wake = cut ? Wake::kSliceEnd : Wake::kFinish;
  alarms_.set(w, cut ? looked : core.finish_at);
}

template <Policy P, class Site>
void Engine<P, Site>::on_worker(uint32_t w) {
  if constexpr (kManages<P>) poke(group_of(w));
  switch (cores_[w].wake) {
    case Wake::kFinish:
      return finish(w);
    case Wake::kSliceEnd:
      return slice_end(w);
    case Wake::kNotified:
      sit(w);
      host_.spend(costs_.preemption.receive);
      return preempt(w);
    case Wake::kAsk:
      if constexpr (Site::kElastic) ask(w);
      return;
    case Wake::kAwake:
      if constexpr (Site::kElastic) awake(w);
      return;
    case Wake::kReleased:
      return released(w);
  }
}

template <Policy P, class Site>
void Engine<P, Site>::finish(uint32_t w) {
  Core& core = cores_[w];
  SimRequest* const request = core.running;
  useful_ += now_ - core.slice_start;
  if (trace_ != nullptr) {
    trace_->slice(w, request->id, request->true_type, core.slice_start, now_,
                  Trace::End::kFinished);
  }
  sit(w);
  core.sched.finish(*request, request->service, Nanos());
  pool_.give_back(request);
  if constexpr (Site::kElastic) {
    if (site_.leaving(w)) return park(w);
  }
  choose(w);
}

template <Policy P, class Site>
void Engine<P, Site>::reply(uint32_t w, SimRequest& request) {
  const bool moved = request.moves % 2 == 1;  // back and forth is not moved
  moved_ += moved ? 1 : 0;
  host_.spend(costs_.worker.send);
  if (now_ >= warm_at_ && arrived_ < setup_.requests) ++done_in_time_;
  Instant replied = now_ + host_.spent() + costs_.nic.pcie + costs_.network_rtt / 2;
  if constexpr (Site::kElastic) {
    replied = answer(request, true, now_ + host_.spent());
    site_.update_credits(now_);
    charge_messages(w);
  }
  if (!request.measured) return;
  recorder_.done(request, replied - request.sent);
  if (watch_.done) [[unlikely]]
    watch_.done({request.id, replied - request.sent, moved});
}

// Somebody looks at the slice that has ended: the worker itself in its timer's interrupt, or the
// timer core, which the worker does not feel unless it is notified.
template <Policy P, class Site>
void Engine<P, Site>::slice_end(uint32_t w) {
  Core& core = cores_[w];
  SimRequest& request = *core.running;
  const bool self = costs_.preemption.clock == Clock::kSelf;
  host_.sit(self ? w : SimHost<P>::kCentralSeat);
  if (self) host_.spend(costs_.preemption.receive);
  if (core.sched.expire(request, request.attained + (now_ - core.slice_start))) {
    return self ? preempt(w) : notify(w);
  }
  ++counters_.preemptions_avoided;
  if (trace_ != nullptr) trace_->mark(w, "avoided", now_);
  core.slice_end = now_ + core.sched.quantum();
  if (self) {
    host_.spend(costs_.preemption.done);
    const Nanos lost = host_.spent();
    overhead_ += lost;
    useful_ += now_ - core.slice_start;
    request.left -= now_ - core.slice_start;
    request.attained += now_ - core.slice_start;
    core.slice_start = now_ + lost;
    core.slice_end = core.slice_start + core.sched.quantum();
    core.finish_at = core.slice_start + request.left;
  }
  set_alarm(w);
  offer_polled();
}

// A timer core does not look into rings.
template <Policy P, class Site>
void Engine<P, Site>::take_in(uint32_t w) {
  if (polled() && costs_.preemption.clock == Clock::kSelf) poll(w);
}

// The timer core sends one notification at a time. One that comes after the request is done
// interrupts whatever follows.
template <Policy P, class Site>
void Engine<P, Site>::notify(uint32_t w) {
  Core& core = cores_[w];
  const Costs::Preemption& price = costs_.preemption;
  timer_core_free_ = std::max(timer_core_free_, now_) + host_.draw(price.send);
  const Instant noticed = timer_core_free_ + host_.draw(price.propagation);
  core.slice_end = Instant::never();
  if (noticed >= core.finish_at) {
    ++late_notices_;
    core.owed = price.receive.typical + price.done.typical;
    core.wake = Wake::kFinish;
    return alarms_.set(w, core.finish_at);
  }
  core.wake = Wake::kNotified;
  alarms_.set(w, noticed);
}

// The request goes back, and the worker chooses again; others may be faster to find it. If its
// queue is full it keeps the worker for another slice.
template <Policy P, class Site>
void Engine<P, Site>::preempt(uint32_t w) {
  Core& core = cores_[w];
  SimRequest* const request = core.running;
  const Nanos ran = now_ - core.slice_start;
  useful_ += ran;
  request->attained += ran;
  request->left -= ran;
  ++suspended_;
  if (trace_ != nullptr) {
    trace_->slice(w, request->id, request->true_type, core.slice_start, now_,
                  Trace::End::kPreempted);
  }
  const std::optional<QueueRef> q = core.sched.requeue(*request);
  if (!q) return choose(w);
  ++counters_.preemptions;
  if (P::kQueues[q->spec].scope == Scope::kGlobal) {
    counters_.wait_queue_max = std::max<uint64_t>(counters_.wait_queue_max, host_.waiting_in(*q));
  }
  host_.spend(costs_.worker.fresh_fiber);
  choose(w);
  offer(*q);
  offer_polled();
}

// What arrived meanwhile goes first.
template <Policy P, class Site>
bool Engine<P, Site>::put_back(uint32_t w, QueueRef q, SimRequest& request) {
  if (polled() && q == own_queue(w)) poll(w);
  return host_.put(q, &request);
}

}  // namespace rubato::sim
