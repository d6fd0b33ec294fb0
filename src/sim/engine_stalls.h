// SPDX-License-Identifier: Apache-2.0
//
// Engine<P, Site>, what the machine takes from it: cores that do nothing for a while (stalls.h).
// For the core time stands still: whatever was due on it comes that much later, and two stalls at
// once last as long as one after the other. What lies in its queue others may take meanwhile, as
// from any busy worker. Included by sim/engine.h only; see there.
#pragma once

#include "sim/engine.h"

namespace rubato::sim {

template <Policy P, class Site>
void Engine<P, Site>::next_stall() {
  coming_stall_ = stalls_.next();
  alarms_.set(stalls_actor(), coming_stall_.at);
}

// `before` is when the event before happened: the run ends there if nothing else is to come.
template <Policy P, class Site>
void Engine<P, Site>::stall(Instant before) {
  free_look_ = true;
  alarms_.clear(stalls_actor());
  if (alarms_.first().at == Instant::never()) {
    now_ = before;
    return host_.set_now(now_);
  }
  if (stalls_.of_all_cores()) {
    for (uint32_t w = 0; w < setup_.workers; ++w) hold(w, coming_stall_.length);
    hold_the_rest(coming_stall_.length);
  } else {
    hold(coming_stall_.core, coming_stall_.length);
  }
  next_stall();
}

// After the last arrival only who runs a request can lose anything.
template <Policy P, class Site>
void Engine<P, Site>::hold(uint32_t w, Nanos length) {
  Core& core = cores_[w];
  const bool idle = idle_.has(w);
  if (idle && arrived_ == setup_.requests) return;
  core.held_until = std::max(core.held_until, now_) + length;
  if constexpr (Site::kElastic) {
    if (site_.core(w) == Site::Core::kParked) return;  // somebody else's time
  }
  core.held += length;
  if (trace_ != nullptr) trace_->mark(w, "stalled", now_);
  if (idle) {
    idle_.remove(w);
    const Instant free_at = std::max(core.free_at, now_);
    core.idle += free_at - core.free_at;
    core.free_at = free_at;
    core.wake = Wake::kReleased;
    return alarms_.set(w, free_at + length);
  }
  if (core.running != nullptr) {
    core.slice_start = core.slice_start + length;
    core.finish_at = core.finish_at + length;
    if (core.slice_end != Instant::never()) core.slice_end = core.slice_end + length;
  }
  put_off(w, length);
}

// Of a machine that stands still altogether: the seats that are no workers.
template <Policy P, class Site>
void Engine<P, Site>::hold_the_rest(Nanos length) {
  dispatcher_free_ = std::max(dispatcher_free_, now_) + length;
  timer_core_free_ = std::max(timer_core_free_, now_) + length;
  put_off(adapt_actor(), length);
  if constexpr (Site::kElastic) put_off(tick_actor(), length);
  for (uint32_t m = 0; m < managers_.size(); ++m) {
    managers_[m].free_at = std::max(managers_[m].free_at, now_) + length;
    set_manager_alarm(ManagerId{m}, managers_[m].alarm);
  }
}

template <Policy P, class Site>
void Engine<P, Site>::put_off(uint32_t actor, Nanos length) {
  const Instant due = alarms_.of(actor);
  if (due != Instant::never()) alarms_.set(actor, due + length);
}

// A worker that was idle has its core again.
template <Policy P, class Site>
void Engine<P, Site>::released(uint32_t w) {
  cores_[w].free_at = now_;
  if constexpr (Site::kElastic) {
    if (site_.leaving(w)) return park(w);
  }
  sit(w);
  choose(w);
  free_look_ = idle_.has(w);
}

}  // namespace rubato::sim
