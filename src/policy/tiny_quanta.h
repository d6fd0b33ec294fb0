// SPDX-License-Identifier: Apache-2.0
//
// Tiny Quanta: each request is given once, at its arrival, to the worker that has the fewest; there
// the requests take turns of a very short quantum. No queue is shared and nobody steals, so that a
// turn costs little. Pure; policy/contract.h says when the host calls what.
#pragma once

#include <array>

#include "policy/contract.h"
#include "policy/fixed_quantum.h"

namespace rubato {

class TinyQuanta : public FixedQuantum {
 public:
  static constexpr const char* kName = "tinyquanta";
  static constexpr const char* kSummary = "join the shortest queue, then processor sharing there";
  static constexpr const char* kSource = "Tiny Quanta, EuroSys 2024, section 3";
  static constexpr Preempts kPreempts = Preempts::kEverything;
  static constexpr std::array<QueueDeclaration, 1> kQueues{{
      {"inbox", Scope::kPerWorker, Sharing::kShared},
  }};

  struct Config {
    Nanos quantum = Nanos::micros(2);
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    visit_quantum(c.quantum, v);
  }

  using Worker = None;
  using Central = None;
  using Plan = None;

  explicit constexpr TinyQuanta(Config config) : FixedQuantum(config.quantum) {}

  // Of equals the first from the worker on that it arrived at, so that ties spread.
  template <class H>
  QueueRef route(const Job&, WorkerId at, H& host) const {
    uint32_t shortest = at.value;
    uint32_t fewest = UINT32_MAX;
    for (uint32_t i = 0; i < host.workers() && fewest > 0; ++i) {
      const WorkerId worker{(at.value + i) % host.workers()};
      const uint32_t held = host.depth(inbox(worker)) + (host.busy(worker) ? 1 : 0);
      if (held < fewest) fewest = held, shortest = worker.value;
    }
    return inbox(WorkerId{shortest});
  }

  template <class H>
  Job* next(Worker&, WorkerId me, H& host) const {
    return host.take(inbox(me));
  }

  static constexpr CutsFor cuts_for() { return CutsFor::kOwnQueues; }

  template <class H>
  SliceDecision expired(const Job&, WorkerId me, H& host) const {
    return preempt_if(host.depth(inbox(me)) > 0);
  }

  template <class H>
  QueueRef requeue(const Job&, RequeueReason, WorkerId me, H&) const {
    return inbox(me);
  }

 private:
  static constexpr QueueRef inbox(WorkerId worker) { return {0, worker.value}; }
};

}  // namespace rubato
