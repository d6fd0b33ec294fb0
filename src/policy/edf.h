// SPDX-License-Identifier: Apache-2.0
//
// Earliest deadline first: a request of a type is due its arrival plus a multiple of the type's
// service time, and runs to completion once started. Requests of one type are due in the order in
// which they came, so a queue per type and a look at the heads is all it takes. Pure; see
// policy/contract.h for who calls what.
#pragma once

#include <array>

#include "policy/contract.h"
#include "policy/profile.h"

namespace rubato {

class Edf {
 public:
  static constexpr const char* kName = "edf";
  static constexpr const char* kSummary =
      "earliest deadline first; a deadline is a multiple of the type's service time";
  static constexpr const char* kSource = "Persephone, SOSP 2021, section 2 (deadlines)";
  static constexpr Preempts kPreempts = Preempts::kNothing;
  static constexpr bool kWorkConserving = true;
  static constexpr bool kInterchangeable = true;
  // Who is of no known type has no deadline: a low priority queue (Persephone, 4.2).
  static constexpr MayStarve kMayStarve = MayStarve::kUnknown;
  static constexpr std::array<QueueSpec, 1> kQueues{{
      {"typed", Scope::kGlobal, Sharing::kShared, limits::kTypes, true},
  }};

  struct Config {
    double slowdown = 10;
    uint32_t window = 10'000;
    Nanos check = Nanos::millis(1);
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"slowdown", "", 1, 1e6, "a request is due after this many service times"},
      c.slowdown);
    v(OptionInfo{"window", "", 1, 1e9, "requests between updates of the types' service times"},
      c.window);
    v(OptionInfo{"check", "us", 1, 1e7, "how often the window is looked at"}, c.check);
  }

  using Worker = None;
  using Central = Profile;
  struct Plan {
    Ranking ranking;
    std::array<Nanos, limits::kTypes> due_after{};  // by type
  };

  explicit constexpr Edf(Config config) : config_(config) {}

  template <class H>
  QueueRef route(const Job& job, WorkerId, H& host) const {
    return typed(host.plan().ranking.lane_of(job.type));
  }

  // Unknown types come when no known one waits.
  template <class H>
  Job* next(Worker&, WorkerId, H& host) const {
    const Plan& plan = host.plan();
    Instant earliest = Instant::never();
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < plan.ranking.types; ++i) {
      const uint32_t type = plan.ranking.order[i];
      const Instant arrived = host.oldest(typed(type));
      if (arrived == Instant::never()) continue;
      const Instant due = arrived + plan.due_after[type];
      if (due < earliest) earliest = due, chosen = type;
    }
    if (Job* job = host.take(typed(chosen))) return job;
    return chosen != 0 ? take_any(host) : nullptr;
  }

  template <class H>
  Plan adapt(Profile& profile, H& host) const {
    if (profile.observe(host) < config_.window) return host.plan();
    profile.close(1);
    Plan plan{.ranking = profile.ranking(), .due_after = {}};
    for (uint32_t t = 0; t < limits::kTypes; ++t) {
      const double ns = static_cast<double>(profile.of(t).service.count()) * config_.slowdown;
      plan.due_after[t] = Nanos(static_cast<int64_t>(ns));
    }
    return plan;
  }

  Nanos adapt_period() const { return config_.check; }

 private:
  static constexpr QueueRef typed(uint32_t type) { return {0, type}; }

  // Somebody was faster at the queue that was chosen.
  template <class H>
  Job* take_any(H& host) const {
    const Ranking& ranking = host.plan().ranking;
    for (uint32_t i = 0; i < ranking.types; ++i) {
      if (Job* job = host.take(typed(ranking.order[i]))) return job;
    }
    return host.take(typed(0));
  }

  Config config_;
};

}  // namespace rubato
