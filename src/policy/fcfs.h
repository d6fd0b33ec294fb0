// SPDX-License-Identifier: Apache-2.0
//
// FCFS: each worker serves its own inbox in order and nothing else (d-FCFS: what RSS and one event
// loop per core give). The baseline of every figure, and the template to start a new policy from.
//
// How to write a policy:
//   1. Copy this file to policy/x.h and rename the class. Keep it plain data: no queues, no clock,
//      no atomics, no allocation. Everything else is asked of the host (concept Host, contract.h).
//   2. Declare the queues in kQueues. The host makes them, and picks a lock-free kind by `sharing`:
//      the less is shared, the cheaper it is. A request goes to queue 0 unless `route` says else.
//   3. Write `next`, from most to least preferred source, as the paper writes it. It must be
//      bounded; null means that this worker has nothing to do now and will be asked again.
//   4. Add only the hooks that the policy needs (list and order in contract.h). To preempt, set
//      kPreempts and write `quantum` and `expired`, and `requeue` if the job does not go back to
//      where it would arrive. For periodic work keep state in Central and write `adapt`.
//   5. State of a worker goes to Worker (touched on that worker only), state of the timer core or
//      dispatcher to Central; what adapt tells the workers is the Plan. None if there is no state.
//   6. Tunables go to Config and are listed in `visit` (see synergy.h); `--set name=value`, the
//      ranges, `rubato policies` and the documentation come from that list.
//   7. Write policy/x_test.cc over testing/script_host.h, and add the policy to policy/all.h. It
//      then exists in every program, and the conformance tests run it (docs/HACKING.md has a whole
//      example).
#pragma once

#include <array>

#include "policy/contract.h"

namespace rubato {

class Fcfs {
 public:
  static constexpr const char* kName = "fcfs";
  static constexpr const char* kSummary = "each worker runs its own inbox to completion, in order";
  static constexpr const char* kSource = "d-FCFS: Persephone, section 2; IX, OSDI 2014";
  static constexpr Preempts kPreempts = Preempts::kNothing;
  static constexpr bool kInterchangeable = true;
  static constexpr std::array<QueueDeclaration, 1> kQueues{{
      {"inbox", Scope::kPerWorker, Sharing::kOwner},
  }};

  using Config = None;
  using Worker = None;
  using Central = None;
  using Plan = None;

  explicit constexpr Fcfs(Config) {}

  template <class H>
  Job* next(Worker&, WorkerId me, H& host) const {
    return host.take(QueueRef{0, me.value});
  }
};

}  // namespace rubato
