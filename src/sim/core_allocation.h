// SPDX-License-Identifier: Apache-2.0
//
// CoreAllocation: the cores of an elastic server: which worker has one, what it does with it, and
// the core time that best-effort work gets instead. Decisions are those of an allocator of
// overload/cores; sim/elastic_cores.h and the workers carry them out. One owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/time.h"
#include "overload/cores/rule.h"
#include "overload/credit_pool.h"
#include "sim/clients.h"
#include "sim/elastic.h"
#include "sim/setup.h"

namespace rubato::sim {

// The server as an idle core sees it.
struct IdleCores final : overload::CoreHost {
  int64_t drained() override { return pool->drained(); }
  int64_t sessions() override { return pool->sessions(); }
  int64_t outstanding() override { return pool->issued() - pool->pending(); }
  int64_t cores() override { return granted; }
  bool claim_parking() override { return !std::exchange(parking, true); }
  void release_parking() override { parking = false; }
  void withhold(int64_t n) override {
    pool->withhold(n);
    if (is_overwritten()) pool->overwrite(n);
  }
  void give_back(int64_t n) override {
    pool->give_back(n);
    if (is_overwritten()) pool->overwrite(-n);
  }
  // Does an update of the credits that has begun write them later?
  bool is_overwritten() const { return now - pool->updated_at() < update; }

  overload::CreditPool<overload::PlainCell>* pool = nullptr;
  Instant now;
  Nanos update;  // Costs::Cores::credit_update
  int64_t granted = 0;
  bool parking = false;
};

class CoreAllocation {
 public:
  static constexpr Nanos kAskAgain = Nanos(500);  // between two questions of an idle core

  enum class State : uint8_t { kServing, kPolling, kParked, kWaking };

  // All workers have a core. Requires setup.elastic with an allocator and settings that exist.
  // `clients` and `pool` outlive this.
  CoreAllocation(const Setup& setup, Instant warm_at, const Clients& clients,
                 overload::CreditPool<overload::PlainCell>& pool);

  State state(uint32_t w) const { return cores_[w].state; }
  bool available(uint32_t w) const {
    return cores_[w].state != State::kParked && cores_[w].state != State::kWaking;
  }
  bool leaving(uint32_t w) const { return cores_[w].leaving; }
  uint32_t granted() const { return static_cast<uint32_t>(host_.granted); }
  // The next core from w on that stays available, else one that wakes or leaves. Requires that
  // not all are parked.
  uint32_t redirect(uint32_t w) const;
  bool rule_parks() const { return rule_->parks(); }
  // Does the NIC wake each parked worker for what comes into its own ring or queue?
  bool interrupts() const { return interrupts_; }
  // What an idle worker that an interrupt can wake does not wait for: the first question.
  Nanos before_asking() const { return interrupts_ ? Nanos() : kAskAgain; }
  Nanos interval() const { return rule_->interval(); }

  void serves(uint32_t w, Instant now);     // the worker has found work
  void polls(uint32_t w, Instant now);      // the worker has none, or has woken up
  bool parks_now(uint32_t w, Instant now);  // asked while the worker polls
  void park(uint32_t w, Instant now, Nanos cost);
  void wake(uint32_t w, Instant now);
  // How long a parked worker still takes to leave its core.
  Nanos leaving_for(uint32_t w, Instant now) const {
    return std::max(cores_[w].gone_at, now) - now;
  }
  void wants_back(uint32_t w) { cores_[w].leaving = true; }

  // The verdict of the allocator; `delays` has the wait of the oldest request of each core.
  overload::CoreChange tick(Instant now, std::vector<Nanos>& delays, Nanos common, bool unserved);

  // Fills in the fields about cores.
  void add_to(ElasticOutcome& outcome) const;

 private:
  struct Core {
    State state = State::kPolling;
    bool leaving = false;
    Instant idle_since;
    Instant gone_at;  // of a parked one: when it has left its core
  };

  // Of the time that workers serve, of which one that has spent some is told when that is over;
  // and of the cores, which come and go at once.
  void account(Instant now);
  void account_granted(Instant now);
  void add_granted(Nanos time, Instant now);  // of one core, beside its state
  void set_state(uint32_t w, State state);

  uint32_t limit_;
  uint32_t guaranteed_;
  bool interrupts_;
  Instant warm_at_;
  const Clients& clients_;
  std::unique_ptr<overload::CoreRule> rule_;
  IdleCores host_;
  std::vector<Core> cores_;
  uint32_t serving_ = 0;
  Instant accounted_, granted_since_;
  Nanos served_;  // by all cores, since the last tick
  Instant ticked_;
  double granted_ns_ = 0, window_ns_ = 0;  // of the measured time
  uint64_t parks_ = 0, wakes_ = 0;
  double max_delay_us_ = 0;
};

}  // namespace rubato::sim
