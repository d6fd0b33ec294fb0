// SPDX-License-Identifier: Apache-2.0
//
// Engine<P>, the managers of groups: when they step, and what that takes. Included by sim/engine.h
// only; see there.
#pragma once

#include "sim/engine.h"

namespace rubato::sim {

template <Policy P, class Site>
void Engine<P, Site>::poke(ManagerId manager) {
  ManagerSeat& seat = managers_[manager.value];
  if (seat.poked) return;
  seat.poked = true;
  poked_.push_back(manager);
}

// After every event. A manager that is still at its last step looks when it is done with that.
template <Policy P, class Site>
void Engine<P, Site>::run_managers() {
  while (!poked_.empty()) {
    const ManagerId manager = poked_.back();
    poked_.pop_back();
    ManagerSeat& seat = managers_[manager.value];
    seat.poked = false;
    if (seat.free_at > now_) {
      set_manager_alarm(manager, std::min(seat.alarm, seat.free_at));
    } else {
      manage(manager);
    }
  }
}

template <Policy P, class Site>
void Engine<P, Site>::manage(ManagerId manager) {
  ManagerSeat& seat = managers_[manager.value];
  host_.sit(host_.seat_of(manager));
  if (seat.due <= now_) host_.spend(costs_.manager.step);
  seat.due = hook::manage(policy_, seat.state, manager, host_);
  seat.free_at = now_ + host_.spent();
  const bool over = arrived_ == setup_.requests && pool_.in_use() == 0;
  const Instant look_at = std::min(seat.due, host_.mailbox(manager).look_at());
  set_manager_alarm(manager, over ? Instant::never() : look_at);
  while (const auto* given = host_.next_given()) offer(given->queue, given->after);
  while (const ManagerId* to = host_.next_written_to()) {
    const Instant arrives = host_.mailbox(*to).look_at();
    if (arrives <= now_) {
      poke(*to);
    } else {
      set_manager_alarm(*to, std::min(managers_[to->value].alarm, arrives));
    }
  }
}

// Not before it is free, and not at this very instant again.
template <Policy P, class Site>
void Engine<P, Site>::set_manager_alarm(ManagerId manager, Instant at) {
  ManagerSeat& seat = managers_[manager.value];
  if (at != Instant::never()) at = std::max({at, seat.free_at, now_ + Nanos(1)});
  if (at == seat.alarm) return;
  seat.alarm = at;
  alarms_.set(manager_actor(manager), at);
}

}  // namespace rubato::sim
