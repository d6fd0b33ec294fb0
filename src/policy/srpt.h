// SPDX-License-Identifier: Apache-2.0
//
// Shortest remaining processing time: the request that needs the least more goes first. No other
// rule has a smaller mean response time. Pure; see policy/contract.h for who calls what.
//
// What is left is the job's size hint minus what it has attained. A request that takes longer than
// its hint is taken to be about as far from its end as it is beyond the hint: just beyond, it is
// nearly done; far beyond, the hint was wrong, and it must not hold up all others. Requests without
// a hint come when no other waits, in the order in which they were put.
#pragma once

#include <array>

#include "policy/contract.h"

namespace rubato {

class Srpt {
 public:
  static constexpr const char* kName = "srpt";
  static constexpr const char* kSummary =
      "shortest remaining processing time first, by the size hints of requests";
  static constexpr const char* kSource = "Schrage, Operations Research 16, 1968";
  static constexpr Preempts kPreempts = Preempts::kEverything;
  static constexpr bool kWorkConserving = true;
  static constexpr bool kInterchangeable = true;
  static constexpr bool kUsesSizes = true;
  static constexpr MayStarve kMayStarve = MayStarve::kLong;
  static constexpr std::array<QueueDeclaration, 1> kQueues{{
      {.name = "by-rest", .scope = Scope::kGlobal, .sharing = Sharing::kShared,
       .order = Order::kByWord},
  }};

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

  explicit constexpr Srpt(Config config) : config_(config) {}

  template <class H>
  QueueRef route(Job& job, WorkerId, H&) const {
    job.policy_word = rest(job);
    return kByRest;
  }

  template <class H>
  Job* next(Worker&, WorkerId, H& host) const {
    return host.take(kByRest);
  }

  template <class H>
  Nanos quantum(const Worker&, const Job&, H&) const {
    return config_.quantum;
  }

  template <class H>
  SliceDecision expired(const Job& job, WorkerId, H& host) const {
    return host.first_word(kByRest) < rest(job) ? SliceDecision::kPreempt
                                                : SliceDecision::kContinue;
  }

  // No `requeue`: the default, back to where it would arrive, with the word of what is left now.

 private:
  static constexpr QueueRef kByRest{0, 0};
  static constexpr uint64_t kUnknown = kNoWord - 1;

  static uint64_t rest(const Job& job) {
    if (job.size_hint == Nanos()) return kUnknown;
    const int64_t left = (job.size_hint - job.attained).count();
    return static_cast<uint64_t>(left < 0 ? -left : left);
  }

  Config config_;
};

}  // namespace rubato
