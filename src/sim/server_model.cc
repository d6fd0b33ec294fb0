// SPDX-License-Identifier: Apache-2.0
#include "sim/server_model.h"

#include "base/check.h"

namespace rubato::sim {
namespace {

int64_t first_credit(const ElasticSetup& setup) {
  return setup.uses_credits ? 0 : Clients::kUnlimited;
}

}  // namespace

ElasticServer::ElasticServer(const Setup& setup, Instant warm_at)
    : setup_(*setup.elastic),
      limit_(setup.workers),
      credits_(setup_.credits, setup.workers),
      sessions_(setup_.clients.sessions),
      clients_(setup.workload, setup.requests, setup.seed, setup.costs, setup_.clients,
               first_credit(setup_), warm_at),
      cores_(setup.workers),
      warm_at_(warm_at) {
  auto rule = overload::CoreRule::make(setup_.cores, setup_.cores_settings, setup.workers);
  RUBATO_CHECK(rule.ok());
  rule_ = std::move(*rule);
  host_.pool = &credits_.pool();
  host_.granted = setup.workers;
  outcome_.credits_least = UINT64_MAX;
  if (!uses_credits()) return;
  for (uint32_t id = 0; id < sessions_.size(); ++id) {
    const int64_t credit = credits_.open(sessions_[id], 0, Instant());
    clients_.tell(id, credit, Instant());
  }
}

bool ElasticServer::admits(uint32_t session, int64_t demand) {
  if (!setup_.uses_credits) return true;
  return credits_.arrived(sessions_[session], demand, delay_) == overload::Arrival::kServe;
}

Instant ElasticServer::answer(uint32_t session, bool served, Instant now, Instant sent) {
  if (!uses_credits()) return clients_.answer(session, Clients::kUnlimited, sent);
  const int64_t credit = served ? credits_.replied(sessions_[session], now)
                                : credits_.dropped(sessions_[session], now);
  return clients_.answer(session, credit, sent);
}

void ElasticServer::demanded(uint32_t session, int64_t demand, Instant now) {
  if (!uses_credits()) return;
  const int64_t credit = credits_.demanded(sessions_[session], demand, now);
  ++messages_;  // the one that came
  if (credit != credits_.kNothingToTell) tell(sessions_[session], credit, now);
}

void ElasticServer::update_credits(Instant now) {
  if (!uses_credits()) return;
  credits_.update(now, delay_, [&](overload::CreditSession& session, int64_t credit) {
    tell(session, credit, now);
  });
}

void ElasticServer::tell(overload::CreditSession& session, int64_t credit, Instant now) {
  clients_.tell(static_cast<uint32_t>(&session - sessions_.data()), credit, now);
  ++messages_;
  ++outcome_.credit_messages;
}

uint32_t ElasticServer::redirect(uint32_t w) const {
  uint32_t second = w;
  for (uint32_t step = 0; step < limit_; ++step) {
    const uint32_t other = (w + step) % limit_;
    if (available(other) && !cores_[other].leaving) return other;
    if (cores_[second].state == Core::kParked && cores_[other].state != Core::kParked) {
      second = other;
    }
  }
  return second;
}

void ElasticServer::account(Instant now) {
  const int64_t passed = (now - accounted_).count();
  served_ += Nanos(passed * serving_);
  const Instant from = std::max(accounted_, warm_at_);
  if (now > from && clients_.generating()) {
    const double measured = static_cast<double>((now - from).count());
    granted_ns_ += measured * static_cast<double>(host_.granted);
    window_ns_ += measured;
  }
  accounted_ = now;
}

void ElasticServer::set_state(uint32_t w, Core state) {
  CoreSeat& seat = cores_[w];
  serving_ += (state == Core::kServing ? 1 : 0);
  serving_ -= (seat.state == Core::kServing ? 1 : 0);
  seat.state = state;
}

void ElasticServer::serves(uint32_t w, Instant now) {
  if (cores_[w].state == Core::kServing) return;
  account(now);
  rule_->resumed(w, host_);
  set_state(w, Core::kServing);
}

void ElasticServer::polls(uint32_t w, Instant now) {
  account(now);
  set_state(w, Core::kPolling);
  cores_[w].idle_since = now;
}

bool ElasticServer::parks_now(uint32_t w, Instant now) {
  if (host_.granted <= setup_.guaranteed) return false;
  return rule_->idle(w, now - cores_[w].idle_since, host_) == overload::Rest::kPark;
}

void ElasticServer::park(uint32_t w, Instant now, Nanos cost) {
  account(now);
  set_state(w, Core::kParked);
  cores_[w].leaving = false;
  --host_.granted;
  if (now >= warm_at_) granted_ns_ += static_cast<double>(cost.count());
  ++outcome_.parks;
}

void ElasticServer::wake(uint32_t w, Instant now) {
  account(now);
  set_state(w, Core::kWaking);
  ++host_.granted;
  rule_->resumed(w, host_);
  ++outcome_.wakes;
}

overload::CoreChange ElasticServer::tick(Instant now, std::vector<Nanos>& delays, Nanos common,
                                       bool unserved) {
  account(now);
  overload::CoreSignals signals;
  signals.cores = granted();
  signals.limit = limit_;
  Nanos sum;
  for (uint32_t w = 0; w < limit_; ++w) {
    delays[w] = std::max(delays[w], common);
    signals.max_delay = std::max(signals.max_delay, delays[w]);
    if (cores_[w].state != Core::kParked) sum += delays[w];
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
  outcome_.max_delay_us = std::max(outcome_.max_delay_us, signals.max_delay.micros());
  if (now >= warm_at_) note_credits();
  const overload::CoreChange change = rule_->change(signals);
  const bool keep = change == overload::CoreChange::kRelease && granted() <= setup_.guaranteed;
  return keep ? overload::CoreChange::kKeep : change;
}

void ElasticServer::note_credits() {
  const auto& pool = credits_.pool();
  sums_.credits += static_cast<double>(pool.total());
  sums_.issued += static_cast<double>(pool.issued());
  sums_.outstanding += static_cast<double>(pool.issued() - pool.pending());
  sums_.withheld += static_cast<double>(pool.withheld());
  sums_.drained += static_cast<double>(pool.drained());
  const auto total = static_cast<uint64_t>(pool.total());
  outcome_.credits_least = std::min(outcome_.credits_least, total);
  outcome_.credits_most = std::max(outcome_.credits_most, total);
  ++sums_.ticks;
}

ElasticOutcome ElasticServer::outcome() const {
  ElasticOutcome outcome = outcome_;
  outcome.shed = clients_.shed();
  outcome.demand_messages = clients_.demand_messages();
  // Of a run that was stopped in its warm-up: as it is now.
  outcome.cores = window_ns_ > 0 ? granted_ns_ / window_ns_ : static_cast<double>(host_.granted);
  outcome.granted_share = outcome.cores / static_cast<double>(limit_);
  if (outcome.credits_least == UINT64_MAX) outcome.credits_least = 0;
  const double ticks = static_cast<double>(std::max<uint64_t>(sums_.ticks, 1));
  outcome.credits = sums_.credits / ticks;
  outcome.credits_issued = sums_.issued / ticks;
  outcome.credits_outstanding = sums_.outstanding / ticks;
  outcome.credits_withheld = sums_.withheld / ticks;
  outcome.drained = sums_.drained / ticks;
  return outcome;
}

}  // namespace rubato::sim
