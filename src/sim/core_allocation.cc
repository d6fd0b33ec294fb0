// SPDX-License-Identifier: Apache-2.0
#include "sim/core_allocation.h"

#include <algorithm>

#include "base/check.h"

namespace rubato::sim {

CoreAllocation::CoreAllocation(const Setup& setup, Instant warm_at, const Clients& clients,
                               overload::CreditPool<overload::PlainCell>& pool)
    : limit_(setup.workers),
      guaranteed_(setup.elastic->guaranteed),
      interrupts_(setup.costs.cores.interrupt > Nanos()),
      warm_at_(warm_at),
      clients_(clients),
      cores_(setup.workers) {
  const ElasticSetup& elastic = *setup.elastic;
  auto rule = overload::CoreRule::make(elastic.cores, elastic.cores_settings, setup.workers);
  RUBATO_CHECK(rule.ok());
  rule_ = std::move(*rule);
  host_.pool = &pool;
  host_.granted = setup.workers;
  host_.update = setup.costs.cores.credit_update;
}

uint32_t CoreAllocation::redirect(uint32_t w) const {
  uint32_t second = w;
  for (uint32_t step = 0; step < limit_; ++step) {
    const uint32_t other = (w + step) % limit_;
    if (available(other) && !cores_[other].leaving) return other;
    if (cores_[second].state == State::kParked && cores_[other].state != State::kParked) {
      second = other;
    }
  }
  return second;
}

void CoreAllocation::account(Instant now) {
  host_.now = now;
  served_ += Nanos((now - accounted_).count() * serving_);
  accounted_ = now;
}

void CoreAllocation::account_granted(Instant now) {
  const Instant from = std::max(granted_since_, warm_at_);
  if (now > from && clients_.generating()) {
    const double measured = static_cast<double>((now - from).count());
    granted_ns_ += measured * static_cast<double>(host_.granted);
    window_ns_ += measured;
  }
  granted_since_ = now;
}

void CoreAllocation::add_granted(Nanos time, Instant now) {
  const bool measured = now >= warm_at_ && clients_.generating();
  if (measured) granted_ns_ += static_cast<double>(time.count());
}

void CoreAllocation::set_state(uint32_t w, State state) {
  Core& core = cores_[w];
  serving_ += (state == State::kServing ? 1 : 0);
  serving_ -= (core.state == State::kServing ? 1 : 0);
  core.state = state;
}

void CoreAllocation::serves(uint32_t w, Instant now) {
  if (cores_[w].state == State::kServing) return;
  account(now);
  rule_->resumed(w, host_);
  set_state(w, State::kServing);
}

void CoreAllocation::polls(uint32_t w, Instant now) {
  account(now);
  set_state(w, State::kPolling);
  cores_[w].idle_since = now;
}

bool CoreAllocation::parks_now(uint32_t w, Instant now) {
  if (host_.granted <= guaranteed_) return false;
  host_.now = now;
  return rule_->idle(w, now - cores_[w].idle_since, host_) == overload::IdleAction::kPark;
}

void CoreAllocation::park(uint32_t w, Instant now, Nanos cost) {
  account(now);
  account_granted(now);
  set_state(w, State::kParked);
  cores_[w].leaving = false;
  cores_[w].gone_at = now + cost;
  --host_.granted;
  add_granted(cost, now);
  ++parks_;
}

void CoreAllocation::wake(uint32_t w, Instant now) {
  account(now);
  account_granted(now);
  set_state(w, State::kWaking);
  add_granted(Nanos() - leaving_for(w, now), now);
  ++host_.granted;
  rule_->resumed(w, host_);
  ++wakes_;
}

overload::CoreChange CoreAllocation::tick(Instant now, std::vector<Nanos>& delays, Nanos common,
                                       bool unserved) {
  account(now);
  account_granted(now);
  overload::CoreSignals signals;
  signals.cores = granted();
  signals.limit = limit_;
  Nanos sum;
  for (uint32_t w = 0; w < limit_; ++w) {
    delays[w] = std::max(delays[w], common);
    signals.max_delay = std::max(signals.max_delay, delays[w]);
    if (cores_[w].state != State::kParked) sum += delays[w];
  }
  const int64_t time = (now - ticked_).count() * signals.cores;
  if (signals.cores > 0) signals.mean_delay = sum / signals.cores;
  if (time > 0) {
    signals.busy = std::min(
        1.0, static_cast<double>(served_.count()) / static_cast<double>(time));
  }
  signals.parked_has_work = unserved;
  served_ = Nanos();
  ticked_ = now;
  max_delay_us_ = std::max(max_delay_us_, signals.max_delay.micros());
  const overload::CoreChange change = rule_->change(signals);
  const bool keep = change == overload::CoreChange::kRelease && granted() <= guaranteed_;
  return keep ? overload::CoreChange::kKeep : change;
}

void CoreAllocation::add_to(ElasticOutcome& outcome) const {
  // Of a run that was stopped in its warm-up: as it is now.
  outcome.cores = window_ns_ > 0 ? granted_ns_ / window_ns_ : static_cast<double>(host_.granted);
  outcome.granted_share = outcome.cores / static_cast<double>(limit_);
  outcome.parks = parks_;
  outcome.wakes = wakes_;
  outcome.max_delay_us = max_delay_us_;
}

}  // namespace rubato::sim
