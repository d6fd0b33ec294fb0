// SPDX-License-Identifier: Apache-2.0
//
// SynergyWaitQueue: the wait queue of Synergy (Q^wait of Algorithms 5.2 and 5.3), with what we add
// to the one queue of the algorithms. By default it is that queue, but for turns. A plain value, a
// part of the policy's options; pure.
//   * Turns: a request that was resumed is resumed before others until it has had `long_turn` of
//     service. Without them long requests of one size all finish late, each having waited for all
//     the others.
//   * Levels (outlook of the thesis, 5.1 and 7.4): a queue per priority, the most urgent first.
//   * Types (Shinjuku, 3.3): a queue per request type; the next request is of the type whose head
//     has waited longest in relation to its SLO.
#pragma once

#include <algorithm>
#include <array>

#include "base/limits.h"
#include "policy/contract.h"

namespace rubato {

struct SynergyWaitQueue {
  static constexpr uint32_t kLevels = limits::kPriorityLevels;
  using PerLevel = std::array<double, kLevels>;

  // Produced, at the last check.
  struct Check {
    std::array<uint64_t, kLevels> waiting{};
    std::array<uint64_t, kLevels> begun{};
  };

  Nanos long_turn = Nanos::millis(2);  // 0 = requests rotate at every slice, as in the thesis
  uint32_t levels = 1;                 // in use
  bool by_type = false;                // levels are types, the last one is for all beyond
  PerLevel slo = {10, 10, 10, 10, 10, 10, 10, 10};  // by level, in service times

  // The policy's declarations 1 and 2: requests that wait, and those whose turn is not over.
  static constexpr QueueRef waiting(uint32_t level) { return {1, level}; }
  static constexpr QueueRef begun(uint32_t level) { return {2, level}; }

  // Q^wait.dequeue(). Levels are strict: while a more urgent one has jobs, the others wait (7.4
  // gives them priorities, not shares).
  template <class H>
  Job* dequeue(H& host) const {
    if (by_type) {
      if (Job* job = dequeue_most_overdue(host)) return job;
    }
    for (uint32_t level = 0; level < levels_in_use(); ++level) {
      if (Job* job = dequeue(level, host)) return job;
    }
    return nullptr;
  }

  // Where a request goes that was cut.
  QueueRef queue_of(const Job& job) const {
    const bool resumed_before = job.preemptions > 1;
    const bool has_turn = resumed_before && job.attained < long_turn;
    const uint32_t level = by_type ? std::min(job.type, kLevels - 1) : level_of(job.priority);
    return has_turn ? begun(level) : waiting(level);
  }

  // Does a request of a more urgent level wait? Types have targets, not priorities.
  template <class H>
  bool has_more_urgent(const Job& job, H& host) const {
    if (by_type) return false;
    for (uint32_t level = 0; level < level_of(job.priority); ++level) {
      if (host.depth(begun(level)) + host.depth(waiting(level)) > 0) return true;
    }
    return false;
  }

  // Q^wait.is_congested(): the consumer has not yet reached what had been produced at the previous
  // check, that is, a request has waited a whole interval (5.1.3.1).
  template <class H>
  bool is_congested(Check& before, H& host) const {
    bool congested = false;
    for (uint32_t level = 0; level < levels_in_use(); ++level) {
      congested |= host.consumed(waiting(level)) < before.waiting[level];
      congested |= host.consumed(begun(level)) < before.begun[level];
      before.waiting[level] = host.produced(waiting(level));
      before.begun[level] = host.produced(begun(level));
    }
    return congested;
  }

  // By level: the SLO times the mean service time since the start of the types that wait there, in
  // nanoseconds; 0 = none of them has been served.
  template <class H>
  PerLevel targets(H& host) const {
    Served rest;
    for (uint32_t type = kLevels - 1; type < limits::kTypes; ++type) {
      rest = rest + host.served(type);
    }
    PerLevel targets_ns{};
    for (uint32_t level = 0; level < kLevels; ++level) {
      const Served served = level + 1 < kLevels ? host.served(level) : rest;
      if (served.count == 0) continue;
      targets_ns[level] = slo[level] * static_cast<double>(served.service.count()) /
                          static_cast<double>(served.count);
    }
    return targets_ns;
  }

 private:
  // Less urgent priorities than there are levels share the last one.
  uint32_t level_of(uint8_t priority) const { return std::min<uint32_t>(priority, levels - 1); }
  uint32_t levels_in_use() const { return by_type ? kLevels : levels; }

  template <class H>
  static Job* dequeue(uint32_t level, H& host) {
    if (Job* job = host.take(begun(level))) return job;
    return host.take(waiting(level));
  }

  template <class H>
  static Job* dequeue_most_overdue(H& host) {
    double highest = -1;
    uint32_t chosen = 0;
    for (uint32_t level = 0; level < kLevels; ++level) {
      const Instant since = std::min(host.oldest(begun(level)), host.oldest(waiting(level)));
      const double target = host.plan().target_ns[level];
      if (since == Instant::never() || target <= 0) continue;
      const double overdue = static_cast<double>((host.now() - since).count()) / target;
      if (overdue > highest) highest = overdue, chosen = level;
    }
    return highest < 0 ? nullptr : dequeue(chosen, host);
  }
};

}  // namespace rubato
