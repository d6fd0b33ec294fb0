// SPDX-License-Identifier: Apache-2.0
//
// Concord: JBSQ(k) whose requests are cut when their quantum is over, and then wait behind all
// others in the one queue of the dispatcher. What its paper also has, a dispatcher that serves
// requests itself while it has nothing to hand out (3.3), is left out. Simulated only, as a system
// to compare with. Pure; policy/contract.h says when the host calls what.
#pragma once

#include "policy/fixed_quantum.h"
#include "policy/jbsq.h"

namespace rubato {

class Concord : public Jbsq, public FixedQuantum {
 public:
  static constexpr const char* kName = "concord";
  static constexpr const char* kSummary =
      "a dispatcher keeps k requests at each worker; fixed quantum, cut to the tail of its queue";
  static constexpr const char* kSource = "Concord, SOSP 2023, section 3";
  static constexpr bool kSimulatedOnly = true;
  static constexpr Preempts kPreempts = Preempts::kEverything;

  struct Config {
    uint32_t k = 2;
    Nanos quantum = Nanos::micros(5);
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"k", "", 1, 64, "requests at a worker, the one that runs included"}, c.k);
    visit_quantum(c.quantum, v);
  }

  explicit constexpr Concord(Config config)
      : Jbsq({.k = config.k}), FixedQuantum(config.quantum) {}

  template <class H>
  SliceDecision expired(const Job&, WorkerId me, H& host) const {
    return preempt_if(host.depth(local(me.value)) + host.depth(kCentral) > 0);
  }

  template <class H>
  QueueRef requeue(const Job&, RequeueReason, WorkerId, H&) const {
    return kCentral;
  }
};

}  // namespace rubato
