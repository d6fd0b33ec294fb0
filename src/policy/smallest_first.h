// SPDX-License-Identifier: Apache-2.0
//
// SmallestFirst: what `las` and `srpt` share. All requests wait in one queue, in the order of a
// measure; at the end of a slice a request is cut if one with a smaller measure waits. A policy P
// derives from SmallestFirst<P> and says what is measured:
//   static uint64_t measure(const Job& job);
// Pure; policy/contract.h says when the host calls what.
#pragma once

#include "base/check.h"
#include "policy/contract.h"
#include "policy/fixed_quantum.h"

namespace rubato {

template <class P>
class SmallestFirst : public FixedQuantum {
 public:
  static constexpr Preempts kPreempts = Preempts::kEverything;
  static constexpr bool kWorkConserving = true;
  static constexpr bool kInterchangeable = true;
  // A request whose measure is large waits for all that come with a smaller one.
  static constexpr MayStarve kMayStarve = MayStarve::kLong;

  struct Config {
    Nanos quantum = Nanos::micros(5);
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"quantum", "us", 0.1, 1e6, "time on a worker before others are looked at"},
      c.quantum);
  }

  using Worker = None;
  using Central = None;
  using Plan = None;

  explicit constexpr SmallestFirst(Config config) : FixedQuantum(config.quantum) {}

  template <class H>
  QueueRef route(Job& job, WorkerId, H&) const {
    job.policy_word = P::measure(job);
    RUBATO_DCHECK(job.policy_word != kNoWord);  // else its queue would look empty
    return kOrdered;
  }

  template <class H>
  Job* next(Worker&, WorkerId, H& host) const {
    return host.take(kOrdered);
  }

  static constexpr CutsFor cuts_for() { return CutsFor::kAnyQueue; }

  template <class H>
  SliceDecision expired(const Job& job, WorkerId, H& host) const {
    return preempt_if(host.first_word(kOrdered) < P::measure(job));
  }

  // No `requeue`: the default, back to where it would arrive, measures the request anew.

 private:
  static constexpr QueueRef kOrdered{0, 0};
};

}  // namespace rubato
