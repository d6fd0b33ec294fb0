// SPDX-License-Identifier: Apache-2.0
//
// The models of a server in a simulation, beyond workers and queues:
//
//   StaticServer   requests come by themselves, and every worker has its core; it costs nothing
//   ElasticServer  clients with sessions, admission by credits, and cores that come and go
//
// An ElasticServer accounts for the credits of each session, the state of each core and the delay
// of requests. The fate of a request or a worker is decided by the parts of the engine that ask it
// (sim/client_arrivals.h, sim/elastic_cores.h). One owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "overload/cores/rule.h"
#include "overload/credit_control.h"
#include "overload/credit_pool.h"
#include "sim/clients.h"
#include "sim/elastic.h"
#include "sim/setup.h"

namespace rubato::sim {

struct StaticServer {
  static constexpr bool kElastic = false;
  StaticServer(const Setup&, Instant) {}
};

// The server as an idle core sees it.
struct IdleCores final : overload::CoreHost {
  int64_t drained() override { return pool->drained(); }
  int64_t sessions() override { return pool->sessions(); }
  int64_t outstanding() override { return pool->issued() - pool->pending(); }
  int64_t cores() override { return granted; }
  bool claim_parking() override { return !std::exchange(parking, true); }
  void release_parking() override { parking = false; }
  void withhold(int64_t n) override { pool->withhold(n); }
  void give_back(int64_t n) override { pool->give_back(n); }

  overload::CreditPool<overload::PlainCell>* pool = nullptr;
  int64_t granted = 0;
  bool parking = false;
};

class ElasticServer {
 public:
  static constexpr bool kElastic = true;
  static constexpr Nanos kAskAgain = Nanos(500);  // between two questions of an idle core

  // Requires setup.elastic with allocators and settings that exist.
  ElasticServer(const Setup& setup, Instant warm_at);

  enum class Core : uint8_t { kServing, kPolling, kParked, kWaking };

  Clients& clients() { return clients_; }
  const Clients& clients() const { return clients_; }

  // Admission. take_messages() counts the messages since its last call, for a worker to pay for.
  bool admits(uint32_t session, int64_t demand);
  // The answer to a request, with credit, is sent at `sent`. Returns when the client has it.
  Instant answer(uint32_t session, bool served, Instant now, Instant sent);
  void demanded(uint32_t session, int64_t demand, Instant now);
  void update_credits(Instant now);
  uint64_t take_messages() { return std::exchange(messages_, 0); }

  // Cores.
  Core core(uint32_t w) const { return cores_[w].state; }
  bool available(uint32_t w) const {
    return cores_[w].state != Core::kParked && cores_[w].state != Core::kWaking;
  }
  bool leaving(uint32_t w) const { return cores_[w].leaving; }
  uint32_t granted() const { return static_cast<uint32_t>(host_.granted); }
  // The next core from w on that stays available, else one that wakes or leaves. Requires that
  // not all are parked.
  uint32_t redirect(uint32_t w) const;
  bool rule_parks() const { return rule_->parks(); }
  Nanos interval() const { return rule_->interval(); }

  void serves(uint32_t w, Instant now);           // it has found work
  void polls(uint32_t w, Instant now);            // it has none, or has woken up
  bool parks_now(uint32_t w, Instant now);        // asked while it polls
  void park(uint32_t w, Instant now, Nanos cost);
  void wake(uint32_t w, Instant now);
  void wants_back(uint32_t w) { cores_[w].leaving = true; }

  // The verdict of the allocator; `delays` has the wait of the oldest request of each core.
  overload::CoreChange tick(Instant now, std::vector<Nanos>& delays, Nanos common, bool unserved);
  void note_delay(Nanos delay) { delay_ = delay; }
  Nanos delay() const { return delay_; }

  const overload::CreditPool<overload::PlainCell>& pool() const { return credits_.pool(); }
  ElasticOutcome outcome() const;

 private:
  struct CoreSeat {
    Core state = Core::kPolling;
    bool leaving = false;
    Instant idle_since;
  };
  struct Sums {  // over ticks
    double credits = 0, issued = 0, outstanding = 0, withheld = 0, drained = 0;
    uint64_t ticks = 0;
  };

  bool uses_credits() const { return setup_.uses_credits; }
  void tell(overload::CreditSession& session, int64_t credit, Instant now);
  void account(Instant now);
  void set_state(uint32_t w, Core state);
  void note_credits();

  ElasticSetup setup_;
  uint32_t limit_;
  overload::CreditControl credits_;
  std::vector<overload::CreditSession> sessions_;
  Clients clients_;
  std::unique_ptr<overload::CoreRule> rule_;
  IdleCores host_;
  std::vector<CoreSeat> cores_;
  uint32_t serving_ = 0;
  Nanos delay_;
  uint64_t messages_ = 0;

  // Core time.
  Instant warm_at_;
  Instant accounted_;
  Nanos served_;   // by all cores, since the last tick
  Instant ticked_;
  double granted_ns_ = 0, window_ns_ = 0;  // of the measured time
  Sums sums_;
  ElasticOutcome outcome_;
};

}  // namespace rubato::sim
