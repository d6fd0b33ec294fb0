// SPDX-License-Identifier: Apache-2.0
//
// SYNERGY (thesis, chapter 5): decentralised inboxes, batched stealing, a global wait queue for
// preempted long requests, preemption only when a short request would gain, and a quantum that
// follows the service time of short requests. Pure; see policy/contract.h for who calls what.
#pragma once

#include <algorithm>
#include <array>

#include "base/limits.h"
#include "policy/contract.h"
#include "policy/dynamic_quantum.h"

namespace rubato {

class Synergy {
 public:
  static constexpr const char* kName = "synergy";
  static constexpr const char* kSummary =
      "inbox per worker, stealing, global wait queue, conditional preemption, dynamic quantum";
  static constexpr const char* kSource = "Synergy, chapter 5, Algorithms 5.2 and 5.3";
  static constexpr Preempts kPreempts = Preempts::kLong;
  static constexpr bool kInterchangeable = true;
  static constexpr std::array<QueueSpec, 3> kQueues{{
      {"inbox", Scope::kPerWorker, Sharing::kStealable},
      {"waiting", Scope::kGlobal, Sharing::kShared, limits::kPriorityLevels},
      {"begun", Scope::kGlobal, Sharing::kShared, limits::kPriorityLevels},
  }};

  struct Config {
    uint32_t steal_threshold = 1;  // steal only from inboxes deeper than this (5.1.1.1)
    uint32_t quantum_factor = 2;
    uint32_t congested_quantum_factor = 8;
    Nanos thresh_wqd{};  // wait-queue check interval; 0 = best effort, never congested (5.1.3.1)
    Nanos quantum_initial = Nanos::micros(5);
    Nanos quantum_min = Nanos::micros(1);  // ours: bounds of the product EMA * factor
    Nanos quantum_max = Nanos::micros(200);
    uint32_t ema_shift = 3;  // weight of a new sample is 2^-shift
    uint32_t ema_clip = 4;   // ours: a sample counts as at most this many EMAs; 0 = as it is
    // Ours: a long request that was resumed is resumed before others until it has had this much
    // service, after which it rotates. Else long requests of one size all finish late, each having
    // waited for all the others. 0 = rotate at every slice, as in the thesis.
    Nanos long_turn = Nanos::millis(2);
    uint32_t levels = 1;     // wait queues in use, most urgent first (7.4)
    // The components that 6.3.1 (Fig. 6.5) enables one by one; without all of them a worker runs
    // its inbox in turns of fixed_quantum, "rss-ci".
    bool stealing = true;      // +ws
    bool wait_queue = true;    // +wq; without it a cut request goes to the tail of its own inbox
    bool conditional = true;   // +cp; without it every expired slice is cut
    Nanos fixed_quantum{};     // +qa is 0: the quantum follows short requests
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"steal_threshold", "", 0, limits::kInboxCapacity,
                 "steal only from inboxes with more requests than this"},
      c.steal_threshold);
    v(OptionInfo{"quantum_factor", "", 1, 1000, "quantum = EMA of short service times * this"},
      c.quantum_factor);
    v(OptionInfo{"congested_quantum_factor", "", 1, 1000, "the same while waiting is congested"},
      c.congested_quantum_factor);
    v(OptionInfo{"thresh_wqd", "us", 0, 1e6, "wait-queue delay that counts as congestion; 0 = off"},
      c.thresh_wqd);
    v(OptionInfo{"quantum_initial", "us", 0.1, 1e6, "EMA before the first sample"},
      c.quantum_initial);
    v(OptionInfo{"quantum_min", "us", 0, 1e6, "lower bound of the quantum"}, c.quantum_min);
    v(OptionInfo{"quantum_max", "us", 0.1, 1e6, "upper bound of the quantum"}, c.quantum_max);
    v(OptionInfo{"ema_shift", "", 0, 16, "weight of a new EMA sample is 2^-this"}, c.ema_shift);
    v(OptionInfo{"ema_clip", "", 0, 1000, "samples count as at most this times the EMA; 0 = off"},
      c.ema_clip);
    v(OptionInfo{"long_turn", "us", 0, 1e7,
                 "service after which a long request rotates; 0 = at every slice"},
      c.long_turn);
    v(OptionInfo{"levels", "", 1, limits::kPriorityLevels, "priority levels of long requests"},
      c.levels);
    v(OptionInfo{"stealing", "", 0, 1, "idle workers take requests from the inboxes of others"},
      c.stealing);
    v(OptionInfo{"wait_queue", "", 0, 1,
                 "cut requests wait in the queue of all; off = at the tail of their own inbox"},
      c.wait_queue);
    v(OptionInfo{"conditional", "", 0, 1, "cut only if a request waits at that worker"},
      c.conditional);
    v(OptionInfo{"fixed_quantum", "us", 0, 1e6, "the quantum; 0 = follows short requests"},
      c.fixed_quantum);
  }

  struct Worker {
    Nanos short_service;  // EMA of service times of requests never marked long; 0 = no sample yet
  };
  struct Central {
    std::array<uint64_t, limits::kPriorityLevels> waiting_before{};  // produced, at the last check
    std::array<uint64_t, limits::kPriorityLevels> begun_before{};
  };
  struct Plan {
    uint32_t factor = 0;
    bool check_wait_queue = false;
  };

  explicit constexpr Synergy(Config config) : config_(config) {}

  Plan initial_plan() const { return {config_.quantum_factor, false}; }

  // Algorithm 5.2.
  template <class H>
  Job* next(Worker&, WorkerId me, H& host) const {
    if (host.plan().check_wait_queue) {
      if (Job* job = take_waiting(host)) return job;
    }
    if (Job* job = host.take(inbox(me.value))) return job;
    if (Job* job = take_waiting(host)) return job;
    return config_.stealing ? steal(me, host) : nullptr;
  }

  // 5.1.1.2: the EMA times the factor in force.
  template <class H>
  Nanos quantum(const Worker& worker, const Job&, H& host) const {
    if (config_.fixed_quantum > Nanos()) return config_.fixed_quantum;
    return dynamic_quantum().of(worker.short_service, host.plan().factor);
  }

  // Algorithm 5.3, lines 14-18: preempt only if a new request waits at that worker. Waiting jobs
  // of the same level do not count, as their priority is the same (5.1.3.2); of a more urgent
  // level they do.
  template <class H>
  Verdict expired(Running running, H& host) const {
    if (!config_.conditional) return Verdict::kPreempt;
    if (host.depth(inbox(running.worker.value)) > 0) return Verdict::kPreempt;
    for (uint32_t level = 0; level < level_of(running.priority); ++level) {
      if (host.depth(begun(level)) + host.depth(waiting(level)) > 0) return Verdict::kPreempt;
    }
    return Verdict::kContinue;
  }

  template <class H>
  QueueRef requeue(const Job& job, Why, WorkerId me, H&) const {
    if (!config_.wait_queue) return inbox(me.value);
    const bool resumed_before = job.preemptions > 1;
    const bool has_turn = resumed_before && job.attained < config_.long_turn;
    return has_turn ? begun(level_of(job.priority)) : waiting(level_of(job.priority));
  }

  // 5.1.1.2.
  void finished(Worker& worker, const Job& job, Nanos service) const {
    if (job.job_class == JobClass::kShort) dynamic_quantum().learn(worker.short_service, service);
  }

  // Algorithm 5.3, lines 5-12: congested if the consumer has not yet reached what had been
  // produced at the previous check, that is, somebody has waited a whole interval (5.1.3.1).
  template <class H>
  Plan adapt(Central& central, H& host) const {
    bool congested = false;
    for (uint32_t level = 0; level < config_.levels; ++level) {
      congested |= host.consumed(waiting(level)) < central.waiting_before[level];
      congested |= host.consumed(begun(level)) < central.begun_before[level];
      central.waiting_before[level] = host.produced(waiting(level));
      central.begun_before[level] = host.produced(begun(level));
    }
    return {congested ? config_.congested_quantum_factor : config_.quantum_factor, congested};
  }

  Nanos adapt_period() const {
    return config_.thresh_wqd > Nanos() ? config_.thresh_wqd : Nanos::max();
  }

 private:
  static constexpr uint32_t kInbox = 0;
  static constexpr QueueRef inbox(uint32_t worker) { return {kInbox, worker}; }
  static constexpr QueueRef waiting(uint32_t level) { return {1, level}; }
  static constexpr QueueRef begun(uint32_t level) { return {2, level}; }

  DynamicQuantum dynamic_quantum() const {
    return {config_.quantum_initial, config_.quantum_min, config_.quantum_max, config_.ema_shift,
            config_.ema_clip};
  }

  // Less urgent priorities than there are levels share the last one.
  uint32_t level_of(uint8_t priority) const {
    return std::min<uint32_t>(priority, config_.levels - 1);
  }

  // Levels are strict: while a more urgent one has jobs, the others wait (7.4 gives them
  // priorities, not shares).
  template <class H>
  Job* take_waiting(H& host) const {
    for (uint32_t level = 0; level < config_.levels; ++level) {
      if (Job* job = host.take(begun(level))) return job;
      if (Job* job = host.take(waiting(level))) return job;
    }
    return nullptr;
  }

  // Algorithm 5.2, lines 10-15. The batch is half of the victim's inbox.
  template <class H>
  Job* steal(WorkerId me, H& host) const {
    const uint32_t workers = host.workers();
    for (uint32_t i = 1; i < workers; ++i) {
      i += verb::find_deeper(host, kInbox, (me.value + i) % workers, workers - i,
                             config_.steal_threshold);
      if (i >= workers) break;
      const QueueRef victim = inbox((me.value + i) % workers);
      const uint32_t depth = host.depth(victim);
      if (depth <= config_.steal_threshold) continue;  // somebody was faster
      const uint32_t batch = std::min((depth + 1) / 2, limits::kStealMax);
      if (Job* job = host.steal(victim, inbox(me.value), batch)) return job;
    }
    return nullptr;
  }

  Config config_;
};

}  // namespace rubato
