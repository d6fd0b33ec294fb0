// SPDX-License-Identifier: Apache-2.0
//
// Work stealing without preemption: a worker serves its own inbox, and when that is empty takes
// half of another's. Victims are tried in ring order from a random start, so that thieves spread.
// `shenango` is an alias; `zygos` takes one request of a victim drawn at random. Pure;
// policy/contract.h says when the host calls what.
#pragma once

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/limits.h"
#include "policy/contract.h"

namespace rubato {

class Steal {
 public:
  static constexpr const char* kName = "steal";
  static constexpr const char* kSummary = "inbox per worker; an idle worker steals half of another";
  static constexpr const char* kSource = "Shenango, NSDI 2019; after ZygOS, SOSP 2017";
  static constexpr Preempts kPreempts = Preempts::kNothing;
  static constexpr bool kElastic = true;
  static constexpr bool kWorkConserving = true;
  static constexpr bool kInterchangeable = true;
  static constexpr std::array<QueueDeclaration, 1> kQueues{{
      {"inbox", Scope::kPerWorker, Sharing::kStealable},
  }};

  using Config = None;
  using Worker = None;
  using Central = None;
  using Plan = None;

  explicit constexpr Steal(Config) {}

  template <class H>
  Job* next(Worker&, WorkerId me, H& host) const {
    if (Job* job = host.take(inbox(me.value))) return job;
    return steal(me, host);
  }

 protected:
  static constexpr QueueRef inbox(uint32_t worker) { return {0, worker}; }

 private:
  // Tries the others in ring order, each once, from a random one on; on its way the walk passes me.
  template <class H>
  Job* steal(WorkerId me, H& host) const {
    const uint32_t workers = host.workers();
    if (workers == 1) return nullptr;
    const uint32_t start = me.value + 1 + host.random(workers - 1);
    for (uint32_t step = 0; step < workers; ++step) {
      step += verb::find_deeper(host, 0, (start + step) % workers, workers - step, 0);
      if (step >= workers) break;
      const QueueRef victim = inbox((start + step) % workers);
      if (victim.index == me.value) continue;
      const uint32_t depth = host.depth(victim);
      if (depth == 0) continue;  // another thief was faster
      const uint32_t batch = std::min(depth - depth / 2, limits::kStealMax);
      RUBATO_DCHECK(batch >= 1 && batch <= depth);
      if (Job* job = host.steal(victim, inbox(me.value), batch)) return job;
    }
    return nullptr;
  }
};

}  // namespace rubato
