// SPDX-License-Identifier: Apache-2.0
//
// Processor sharing by a fixed quantum: one queue for all, every request is cut after `quantum` and
// goes to the tail, whatever its kind, unless nothing else waits. What a blindly preemptive server
// does (Shinjuku with one queue), and the baseline that Synergy is compared with. Pure;
// policy/contract.h says when the host calls what.
#pragma once

#include <array>

#include "policy/contract.h"
#include "policy/fixed_quantum.h"

namespace rubato {

class Ps : public FixedQuantum {
 public:
  static constexpr const char* kName = "ps";
  static constexpr const char* kSummary = "one global queue, fixed quantum, preempted to the tail";
  static constexpr const char* kSource = "Shinjuku, NSDI 2019, section 3.3 (single queue)";
  static constexpr Preempts kPreempts = Preempts::kEverything;
  static constexpr bool kWorkConserving = true;
  static constexpr bool kInterchangeable = true;
  static constexpr std::array<QueueDeclaration, 1> kQueues{{
      {"global", Scope::kGlobal, Sharing::kShared},
  }};

  struct Config {
    Nanos quantum = Nanos::micros(10);
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    visit_quantum(c.quantum, v);
  }

  using Worker = None;
  using Central = None;
  using Plan = None;

  explicit constexpr Ps(Config config) : FixedQuantum(config.quantum) {}

  template <class H>
  Job* next(Worker&, WorkerId, H& host) const {
    return host.take(kGlobal);
  }

  static constexpr CutsFor cuts_for() { return CutsFor::kAnyQueue; }

  template <class H>
  SliceDecision expired(const Job&, WorkerId, H& host) const {
    return preempt_if(host.depth(kGlobal) > 0);
  }

  // No `requeue`: the default, back to where it would arrive, is the tail of the global queue.

 private:
  static constexpr QueueRef kGlobal{0, 0};
};

}  // namespace rubato
