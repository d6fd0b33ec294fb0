// SPDX-License-Identifier: Apache-2.0
//
// Fixed priority: a queue per type, shortest service time first, without reservation or preemption.
// Short requests overtake long ones that wait, but still wait for those that run. Pure;
// policy/contract.h says when the host calls what.
#pragma once

#include <array>

#include "policy/contract.h"
#include "policy/profile.h"
#include "policy/profiled.h"

namespace rubato {

class FixedPriority : public Profiled {
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
    uint32_t window = kWindow;
    Nanos check = kCheck;
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    visit_window(c.window, c.check, v);
  }

  using Plan = Ranking;

  explicit constexpr FixedPriority(Config config) : Profiled(config.window, config.check) {}

  template <class H>
  QueueRef route(const Job& job, WorkerId, H& host) const {
    return typed(host.plan().queue_index_of(job.type));
  }

  // Unknown types come last.
  template <class H>
  Job* next(Worker&, WorkerId, H& host) const {
    if (Job* job = verb::take_first(host, 0, host.plan().ranked())) return job;
    return host.take(typed(0));
  }

  template <class H>
  Plan adapt(Profile& profile, H& host) const {
    if (!close_window(profile, host)) return host.plan();
    return profile.ranking();
  }

 private:
  static constexpr QueueRef typed(uint32_t type) { return {0, type}; }
};

}  // namespace rubato
