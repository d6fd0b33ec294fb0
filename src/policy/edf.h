// SPDX-License-Identifier: Apache-2.0
//
// Earliest deadline first: the request that is due first goes first, and runs to completion once
// started. A request that comes without a deadline is due its arrival plus a multiple of its type's
// service time, as far as that is known; else it has none, and comes when no other waits. Pure;
// policy/contract.h says when the host calls what.
#pragma once

#include <algorithm>
#include <array>

#include "base/check.h"
#include "policy/contract.h"
#include "policy/profile.h"
#include "policy/profiled.h"

namespace rubato {

class Edf : public Profiled {
 public:
  static constexpr const char* kName = "edf";
  static constexpr const char* kSummary =
      "earliest deadline first: the request's own, else a multiple of its type's service time";
  static constexpr const char* kSource =
      "Liu and Layland, JACM 1973; by type: Persephone, SOSP 2021, section 2";
  static constexpr Preempts kPreempts = Preempts::kNothing;
  static constexpr bool kWorkConserving = true;
  static constexpr bool kInterchangeable = true;
  // Requests without a deadline: a low priority queue (Persephone, 4.2).
  static constexpr MayStarve kMayStarve = MayStarve::kUnknown;
  static constexpr std::array<QueueDeclaration, 1> kQueues{{
      {.name = "by-deadline", .scope = Scope::kGlobal, .sharing = Sharing::kShared,
       .order = Order::kByWord},
  }};

  struct Config {
    double slowdown = 10;
    uint32_t window = kWindow;
    Nanos check = kCheck;
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"slowdown", "", 1, 1e6,
                 "a request without a deadline is due after this many service times"},
      c.slowdown);
    visit_window(c.window, c.check, v);
  }

  struct Plan {
    std::array<Nanos, limits::kTypes> due_after{};  // by type, zero = not known
  };

  explicit constexpr Edf(Config config)
      : Profiled(config.window, config.check), slowdown_(config.slowdown) {}

  template <class H>
  QueueRef route(Job& job, WorkerId, H& host) const {
    job.policy_word = static_cast<uint64_t>(due(job, host.plan()).ns());
    RUBATO_DCHECK(job.policy_word != kNoWord);  // else its queue would look empty
    return kByDeadline;
  }

  template <class H>
  Job* next(Worker&, WorkerId, H& host) const {
    return host.take(kByDeadline);
  }

  template <class H>
  Plan adapt(Profile& profile, H& host) const {
    if (!close_window(profile, host)) return host.plan();
    Plan plan;
    for (uint32_t t = 1; t < limits::kTypes; ++t) {
      const double ns = static_cast<double>(profile.of(t).service.count()) * slowdown_;
      plan.due_after[t] = Nanos(static_cast<int64_t>(ns));
    }
    return plan;
  }

 private:
  static constexpr QueueRef kByDeadline{0, 0};

  static Instant due(const Job& job, const Plan& plan) {
    if (job.deadline != Instant::never()) return job.deadline;
    const Nanos after = plan.due_after[std::min(job.type, limits::kTypes - 1)];
    return after == Nanos() ? Instant::never() : job.arrived + after;
  }

  double slowdown_;
};

}  // namespace rubato
