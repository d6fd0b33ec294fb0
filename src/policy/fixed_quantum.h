// SPDX-License-Identifier: Apache-2.0
//
// FixedQuantum: what policies share that give every request a slice of the same length. A base of
// policies; pure, policy/contract.h says when the host calls what.
#pragma once

#include "base/check.h"
#include "policy/contract.h"

namespace rubato {

class FixedQuantum {
 public:
  explicit constexpr FixedQuantum(Nanos quantum) : quantum_(quantum) {
    RUBATO_DCHECK(quantum > Nanos());
  }

  template <class W, class H>
  Nanos quantum(const W&, const Job&, H&) const {
    return quantum_;
  }

 protected:
  template <class V>
  static void visit_quantum(Nanos& quantum, V&& v) {
    v(OptionInfo{"quantum", "us", 0.1, 1e6, "time on a worker before a request is cut"}, quantum);
  }

  // A cut is worth its cost only if a request waits that may then run.
  static SliceDecision preempt_if(bool waits) {
    return waits ? SliceDecision::kPreempt : SliceDecision::kContinue;
  }

 private:
  Nanos quantum_;
};

}  // namespace rubato
