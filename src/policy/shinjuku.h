// SPDX-License-Identifier: Apache-2.0
//
// Shinjuku with a queue per type: the next request comes from the queue whose head has waited
// longest in relation to its target, which is a multiple of its type's service time; every request
// is cut after a quantum if another one waits, and goes back before all of its type that have not
// begun. The paper puts it at the head of its queue, also before those that were cut earlier: here
// these are FIFO, in the order of their cuts. At most as many as there are workers of one type wait
// cut, as none of it begins before them. With one queue for all it is `ps`. Pure;
// policy/contract.h says when the host calls what.
#pragma once

#include <array>
#include <string>

#include "base/check.h"
#include "policy/contract.h"
#include "policy/explanation.h"
#include "policy/fixed_quantum.h"
#include "policy/profile.h"
#include "policy/profiled.h"

namespace rubato {

class Shinjuku : public FixedQuantum, public Profiled {
 public:
  static constexpr const char* kName = "shinjuku";
  static constexpr const char* kSummary =
      "queue per type, picked by waiting time over target; fixed quantum, FIFO, cut ones first";
  static constexpr const char* kSource = "Shinjuku, NSDI 2019, section 3.3 (multi-queue)";
  static constexpr Preempts kPreempts = Preempts::kEverything;
  static constexpr bool kWorkConserving = true;
  static constexpr bool kInterchangeable = true;
  // A request of no known type has no target: a low priority queue (Persephone, 4.2).
  static constexpr MayStarve kMayStarve = MayStarve::kUnknown;
  // A queue with two ends is made of two: what was cut is before what is fresh.
  static constexpr std::array<QueueDeclaration, 2> kQueues{{
      {"fresh", Scope::kGlobal, Sharing::kShared, limits::kTypes, true},
      {"cut", Scope::kGlobal, Sharing::kShared, limits::kTypes, true},
  }};

  struct Config {
    Nanos quantum = Nanos::micros(5);
    uint32_t window = kWindow;
    Nanos check = kCheck;
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    visit_quantum(c.quantum, v);
    visit_window(c.window, c.check, v);
  }

  struct Plan {
    Ranking ranking;
    std::array<Nanos, limits::kTypes> service{};  // by type
  };

  explicit constexpr Shinjuku(Config config)
      : FixedQuantum(config.quantum), Profiled(config.window, config.check) {}

  template <class H>
  QueueRef route(const Job& job, WorkerId, H& host) const {
    return fresh(host.plan().ranking.queue_index_of(job.type));
  }

  // The highest ratio of waiting time to target. All targets are the same multiple of a service
  // time, so the multiple does not matter. Unknown types come when no known one waits.
  template <class H>
  Job* next(Worker&, WorkerId, H& host) const {
    const Plan& plan = host.plan();
    double highest = -1;
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < plan.ranking.types; ++i) {
      const uint32_t type = plan.ranking.order[i];
      const Instant since = std::min(host.oldest(cut(type)), host.oldest(fresh(type)));
      if (since == Instant::never()) continue;
      RUBATO_DCHECK(plan.service[type] > Nanos());
      const double ratio = static_cast<double>((host.now() - since).count()) /
                           static_cast<double>(plan.service[type].count());
      if (ratio > highest) highest = ratio, chosen = type;
    }
    if (Job* job = take(chosen, host)) return job;
    return chosen != 0 ? take_any(host) : nullptr;
  }

  static constexpr CutsFor cuts_for() { return CutsFor::kAnyQueue; }

  template <class H>
  SliceDecision expired(const Job&, WorkerId, H& host) const {
    const Ranking& ranking = host.plan().ranking;
    bool waiting = host.depth(fresh(0)) + host.depth(cut(0)) > 0;
    for (uint32_t i = 0; i < ranking.types && !waiting; ++i) {
      const uint32_t type = ranking.order[i];
      waiting = host.depth(fresh(type)) + host.depth(cut(type)) > 0;
    }
    return preempt_if(waiting);
  }

  template <class H>
  QueueRef requeue(const Job& job, RequeueReason, WorkerId, H& host) const {
    return cut(host.plan().ranking.queue_index_of(job.type));
  }

  template <class H>
  Plan adapt(Profile& profile, H& host) const {
    if (!close_window(profile, host)) return host.plan();
    Plan plan{.ranking = profile.ranking(), .service = {}};
    for (uint32_t t = 0; t < limits::kTypes; ++t) plan.service[t] = profile.of(t).service;
    return plan;
  }

  void explain(const Plan& plan, uint32_t, Explanation& out) const {
    for (uint32_t i = 0; i < plan.ranking.types; ++i) {
      const uint32_t type = plan.ranking.order[i];
      out.line(out.type(type) + " takes " + std::to_string(plan.service[type].count()) +
               " ns on average, against which its waiting time counts; waits in queues fresh and "
               "cut " + std::to_string(type));
    }
    out.line("other types are served when none of these waits, and wait in queues fresh and cut 0");
  }

 private:
  static constexpr QueueRef fresh(uint32_t type) { return {0, type}; }
  static constexpr QueueRef cut(uint32_t type) { return {1, type}; }

  template <class H>
  Job* take(uint32_t type, H& host) const {
    if (Job* job = host.take(cut(type))) return job;
    return host.take(fresh(type));
  }

  // Another worker was faster at the queue that was chosen.
  template <class H>
  Job* take_any(H& host) const {
    const Ranking& ranking = host.plan().ranking;
    for (uint32_t i = 0; i < ranking.types; ++i) {
      if (Job* job = take(ranking.order[i], host)) return job;
    }
    return take(0, host);
  }
};

}  // namespace rubato
