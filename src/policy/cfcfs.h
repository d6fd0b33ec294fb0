// SPDX-License-Identifier: Apache-2.0
//
// c-FCFS: one queue for all, every free worker takes its head and runs it to completion. No worker
// idles while a request waits, but all of them share one queue. Pure; policy/contract.h says when
// the host calls what.
#pragma once

#include <array>

#include "policy/contract.h"

namespace rubato {

class Cfcfs {
 public:
  static constexpr const char* kName = "cfcfs";
  static constexpr const char* kSummary = "one global queue in arrival order, run to completion";
  static constexpr const char* kSource = "c-FCFS: Persephone, section 2; ZygOS, SOSP 2017";
  static constexpr Preempts kPreempts = Preempts::kNothing;
  static constexpr bool kElastic = true;
  static constexpr bool kWorkConserving = true;
  static constexpr bool kInterchangeable = true;
  static constexpr std::array<QueueDeclaration, 1> kQueues{{
      {"global", Scope::kGlobal, Sharing::kShared},
  }};

  using Config = None;
  using Worker = None;
  using Central = None;
  using Plan = None;

  explicit constexpr Cfcfs(Config) {}

  template <class H>
  Job* next(Worker&, WorkerId, H& host) const {
    return host.take(QueueRef{0, 0});
  }
};

}  // namespace rubato
