// SPDX-License-Identifier: Apache-2.0
//
// Least attained service (foreground-background): the request that has been served for the shortest
// time goes first. Knows no sizes, and is the best of all rules that know none where most requests
// are short and a few are very long. Pure; see policy/contract.h for who calls what.
#pragma once

#include <array>

#include "policy/contract.h"

namespace rubato {

class Las {
 public:
  static constexpr const char* kName = "las";
  static constexpr const char* kSummary =
      "least attained service first: who was served for the shortest time so far";
  static constexpr const char* kSource =
      "Kleinrock, Queueing Systems vol. 2, 1976, section 4.6; Rai et al., SIGMETRICS 2003";
  static constexpr Preempts kPreempts = Preempts::kEverything;
  static constexpr bool kWorkConserving = true;
  static constexpr bool kInterchangeable = true;
  // Who has been served for long waits for all who come.
  static constexpr MayStarve kMayStarve = MayStarve::kLong;
  static constexpr std::array<QueueDeclaration, 1> kQueues{{
      {.name = "by-age", .scope = Scope::kGlobal, .sharing = Sharing::kShared,
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

  explicit constexpr Las(Config config) : config_(config) {}

  // No `route`: who comes goes to the one queue, with a word of 0, as nothing was attained.

  template <class H>
  Job* next(Worker&, WorkerId, H& host) const {
    return host.take(kByAge);
  }

  template <class H>
  Nanos quantum(const Worker&, const Job&, H&) const {
    return config_.quantum;
  }

  template <class H>
  SliceDecision expired(const Job& job, WorkerId, H& host) const {
    return host.first_word(kByAge) < age(job) ? SliceDecision::kPreempt : SliceDecision::kContinue;
  }

  template <class H>
  QueueRef requeue(Job& job, RequeueReason, WorkerId, H&) const {
    job.policy_word = age(job);
    return kByAge;
  }

 private:
  static constexpr QueueRef kByAge{0, 0};

  static uint64_t age(const Job& job) { return static_cast<uint64_t>(job.attained.count()); }

  Config config_;
};

}  // namespace rubato
