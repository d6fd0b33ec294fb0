// SPDX-License-Identifier: Apache-2.0
//
// ElasticServer: the model of a server with clients in sessions, admission by credits, and cores
// that come and go. It accounts for the credits of each session and the delay of requests; the
// cores are those of CoreAllocation. The fate of a request or a worker is decided by the parts of
// the engine that ask it (sim/client_arrivals.h, sim/elastic_cores.h). One owner.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "overload/credit_control.h"
#include "overload/credit_pool.h"
#include "sim/clients.h"
#include "sim/core_allocation.h"
#include "sim/elastic.h"
#include "sim/setup.h"

namespace rubato::sim {

class ElasticServer {
 public:
  static constexpr bool kElastic = true;
  static constexpr bool kIdeal = false;

  // Requires setup.elastic with allocators and settings that exist.
  ElasticServer(const Setup& setup, Instant warm_at);
  ElasticServer(const ElasticServer&) = delete;
  ElasticServer& operator=(const ElasticServer&) = delete;

  Clients& clients() { return clients_; }
  CoreAllocation& cores() { return cores_; }
  const CoreAllocation& cores() const { return cores_; }

  // The account of the session whose request is generated next, which of many is in no near cache,
  // is fetched while others have their events.
  void expect() const {
    const auto* const session = reinterpret_cast<const char*>(&sessions_[clients_.coming()]);
    __builtin_prefetch(session, 1);
    __builtin_prefetch(session + sizeof(overload::CreditSession) - 1, 1);
  }
  // Whether the request is served.
  bool admits(uint32_t session, int64_t demand);
  // The answer to a request, with credit, is sent at `sent`. Returns when the client has it.
  Instant answer(uint32_t session, bool served, Instant now, Instant sent);
  void note_demand(uint32_t session, int64_t demand, Instant now);
  void update_credits(Instant now);
  // The messages since the last call, for a worker to pay for.
  uint64_t take_messages() { return std::exchange(messages_, 0); }

  // The longest delay of a request, as of now.
  void note_delay(Nanos delay, Instant now);
  Nanos delay() const { return delay_; }

  const overload::CreditPool<overload::PlainCell>& pool() const { return credits_.pool(); }
  ElasticOutcome outcome() const;

 private:
  struct Sums {  // over ticks
    double credits = 0, issued = 0, outstanding = 0, withheld = 0, drained = 0;
    uint64_t ticks = 0;
  };

  bool uses_credits() const { return setup_.uses_credits; }
  void advertise(overload::CreditSession& session, int64_t credit, Instant now);
  void note_credits();

  ElasticSetup setup_;
  Instant warm_at_;
  overload::CreditControl credits_;
  std::vector<overload::CreditSession> sessions_;
  Clients clients_;
  CoreAllocation cores_;
  Nanos delay_;
  uint64_t messages_ = 0;
  uint64_t credit_messages_ = 0;
  uint64_t credits_least_ = UINT64_MAX, credits_most_ = 0;
  Sums sums_;
};

}  // namespace rubato::sim
