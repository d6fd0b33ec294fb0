// SPDX-License-Identifier: Apache-2.0
//
// Priority<Mode>: a policy for theory's sake, with the request type as priority (the first is the
// most urgent). Textbook queues: first come first served within a type; either nobody is cut, or
// what is less urgent is cut, to the length of a slice, when something more urgent waits, and goes
// on later where it was. Not in policy/all.h: production policies learn priorities from the
// application. Pure.
#pragma once

#include <array>

#include "policy/contract.h"

namespace rubato::sim {

template <Preempts kMode>
class Priority {
 public:
  static constexpr const char* kName = "priority";
  static constexpr const char* kSummary = "the request type is the priority";
  static constexpr const char* kSource = "Conway, Maxwell and Miller, chapter 8";
  static constexpr Preempts kPreempts = kMode;
  static constexpr bool kWorkConserving = true;
  static constexpr bool kInterchangeable = true;
  static constexpr uint32_t kClasses = 4;
  static constexpr std::array<QueueDeclaration, 2> kQueues{{
      {"fresh", Scope::kGlobal, Sharing::kShared, kClasses},
      {"cut", Scope::kGlobal, Sharing::kShared, kClasses},
  }};

  struct Config {
    Nanos quantum = Nanos(100);
  };
  using Worker = None;
  using Central = None;
  using Plan = None;

  explicit constexpr Priority(Config config) : config_(config) {}

  template <class H>
  QueueRef route(const Job& job, WorkerId, H&) const {
    return {0, level_of(job)};
  }
  template <class H>
  Job* next(Worker&, WorkerId, H& host) const {
    for (uint32_t level = 0; level < kClasses; ++level) {
      if (Job* job = host.take(QueueRef{1, level})) return job;
      if (Job* job = host.take(QueueRef{0, level})) return job;
    }
    return nullptr;
  }
  // Nothing is more urgent than level 0.
  template <class H>
  Nanos quantum(const Worker&, const Job& job, H&) const {
    return level_of(job) == 0 ? Nanos::max() : config_.quantum;
  }
  template <class H>
  SliceDecision expired(const Job& job, WorkerId, H& host) const {
    for (uint32_t level = 0; level < level_of(job); ++level) {
      if (host.depth(QueueRef{0, level}) + host.depth(QueueRef{1, level}) > 0) {
        return SliceDecision::kPreempt;
      }
    }
    return SliceDecision::kContinue;
  }
  template <class H>
  QueueRef requeue(const Job& job, RequeueReason, WorkerId, H&) const {
    return {1, level_of(job)};
  }

 private:
  static uint32_t level_of(const Job& job) { return job.type - 1; }  // 0 is an unknown type

  Config config_;
};

}  // namespace rubato::sim
