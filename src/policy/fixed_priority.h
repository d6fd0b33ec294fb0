// SPDX-License-Identifier: Apache-2.0
//
// Fixed priority: a queue per type, shortest service time first, without reservation or preemption.
// Short requests overtake long ones that wait, but still wait for those that run. Pure; see
// policy/contract.h for who calls what.
#pragma once

#include <array>

#include "policy/contract.h"
#include "policy/profile.h"

namespace rubato {

class FixedPriority {
 public:
  static constexpr const char* kName = "fixed-priority";
  static constexpr const char* kSummary = "queue per type, shortest first, run to completion";
  static constexpr const char* kSource = "Persephone, SOSP 2021, section 5 (fixed priority)";
  static constexpr Preempts kPreempts = Preempts::kNothing;
  static constexpr bool kWorkConserving = true;
  static constexpr bool kInterchangeable = true;
  // Shortest job first "can starve long RPCs" (Persephone, Table 5).
  static constexpr MayStarve kMayStarve = MayStarve::kLong;
  static constexpr std::array<QueueDeclaration, 1> kQueues{{
      {"typed", Scope::kGlobal, Sharing::kShared, limits::kTypes},
  }};

  struct Config {
    uint32_t window = 10'000;
    Nanos check = Nanos::millis(1);
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"window", "", 1, 1e9, "requests between updates of the types' service times"},
      c.window);
    v(OptionInfo{"check", "us", 1, 1e7, "how often the window is looked at"}, c.check);
  }

  using Worker = None;
  using Central = Profile;
  using Plan = Ranking;

  explicit constexpr FixedPriority(Config config) : config_(config) {}

  template <class H>
  QueueRef route(const Job& job, WorkerId, H& host) const {
    return typed(host.plan().queue_index_of(job.type));
  }

  // Unknown types come last.
  template <class H>
  Job* next(Worker&, WorkerId, H& host) const {
    const Ranking& ranking = host.plan();
    for (uint32_t i = 0; i < ranking.types; ++i) {
      if (Job* job = host.take(typed(ranking.order[i]))) return job;
    }
    return host.take(typed(0));
  }

  template <class H>
  Plan adapt(Profile& profile, H& host) const {
    if (profile.observe(host) < config_.window) return host.plan();
    profile.close(1);
    return profile.ranking();
  }

  Nanos adapt_period() const { return config_.check; }

 private:
  static constexpr QueueRef typed(uint32_t type) { return {0, type}; }

  Config config_;
};

}  // namespace rubato
