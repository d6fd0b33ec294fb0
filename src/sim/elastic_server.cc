// SPDX-License-Identifier: Apache-2.0
#include "sim/elastic_server.h"

#include <algorithm>

namespace rubato::sim {
namespace {

int64_t first_credit(const ElasticSetup& setup) {
  return setup.uses_credits ? 0 : Clients::kUnlimited;
}

}  // namespace

ElasticServer::ElasticServer(const Setup& setup, Instant warm_at)
    : setup_(*setup.elastic),
      warm_at_(warm_at),
      credits_(setup_.credits, setup.workers),
      sessions_(setup_.clients.sessions),
      clients_(setup.workload, setup.requests, setup.seed, setup.costs, setup_.clients,
               first_credit(setup_), warm_at),
      cores_(setup, warm_at, clients_, credits_.pool()) {
  if (!uses_credits()) return;
  for (uint32_t id = 0; id < sessions_.size(); ++id) {
    const int64_t credit = credits_.open(sessions_[id], 0, Instant());
    clients_.advertise(id, credit, Instant());
  }
}

bool ElasticServer::admits(uint32_t session, int64_t demand) {
  if (!setup_.uses_credits) return true;
  return credits_.arrived(sessions_[session], demand, delay_) == overload::Arrival::kServe;
}

Instant ElasticServer::answer(uint32_t session, bool served, Instant now, Instant sent) {
  if (!uses_credits()) return clients_.answer(session, Clients::kUnlimited, sent);
  const int64_t credit = served ? credits_.replied(sessions_[session], now)
                                : credits_.refused(sessions_[session], now);
  return clients_.answer(session, credit, sent);
}

void ElasticServer::note_demand(uint32_t session, int64_t demand, Instant now) {
  if (!uses_credits()) return;
  const int64_t credit = credits_.note_demand(sessions_[session], demand, now);
  ++messages_;  // the one that came
  if (credit != credits_.kNoAdvertisement) advertise(sessions_[session], credit, now);
}

void ElasticServer::update_credits(Instant now) {
  if (!uses_credits()) return;
  credits_.update(now, delay_, [&](overload::CreditSession& session, int64_t credit) {
    advertise(session, credit, now);
  });
}

void ElasticServer::advertise(overload::CreditSession& session, int64_t credit, Instant now) {
  clients_.advertise(static_cast<uint32_t>(&session - sessions_.data()), credit, now);
  ++messages_;
  ++credit_messages_;
}

void ElasticServer::note_delay(Nanos delay, Instant now) {
  delay_ = delay;
  if (now >= warm_at_) note_credits();
}

void ElasticServer::note_credits() {
  const auto& pool = credits_.pool();
  sums_.credits += static_cast<double>(pool.total());
  sums_.issued += static_cast<double>(pool.issued());
  sums_.outstanding += static_cast<double>(pool.issued() - pool.pending());
  sums_.withheld += static_cast<double>(pool.withheld());
  sums_.drained += static_cast<double>(pool.drained());
  const auto total = static_cast<uint64_t>(pool.total());
  credits_least_ = std::min(credits_least_, total);
  credits_most_ = std::max(credits_most_, total);
  ++sums_.ticks;
}

ElasticOutcome ElasticServer::outcome() const {
  ElasticOutcome outcome;
  cores_.add_to(outcome);
  outcome.unsent = clients_.unsent();
  outcome.demand_messages = clients_.demand_messages();
  outcome.credit_messages = credit_messages_;
  outcome.credits_least = credits_least_ == UINT64_MAX ? 0 : credits_least_;
  outcome.credits_most = credits_most_;
  const double ticks = static_cast<double>(std::max<uint64_t>(sums_.ticks, 1));
  outcome.credits = sums_.credits / ticks;
  outcome.credits_issued = sums_.issued / ticks;
  outcome.credits_outstanding = sums_.outstanding / ticks;
  outcome.credits_withheld = sums_.withheld / ticks;
  outcome.drained = sums_.drained / ticks;
  return outcome;
}

}  // namespace rubato::sim
