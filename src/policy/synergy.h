// SPDX-License-Identifier: Apache-2.0
//
// SYNERGY (thesis, chapter 5): decentralised inboxes, batched stealing, a global wait queue for
// preempted long requests, preemption only when a short request would gain, and a quantum that
// follows the service time of short requests. What we add stands in synergy_wait_queue.h (turns,
// levels, types), synergy_reservation.h and synergy_flows.h. Pure; policy/contract.h says when the
// host calls what.
#pragma once

#include <algorithm>
#include <array>

#include "base/limits.h"
#include "policy/contract.h"
#include "policy/dynamic_quantum.h"
#include "policy/explanation.h"
#include "policy/synergy_flows.h"
#include "policy/synergy_options.h"
#include "policy/synergy_reservation.h"
#include "policy/synergy_wait_queue.h"

namespace rubato {

class Synergy {
 public:
  static constexpr const char* kName = "synergy";
  static constexpr const char* kSummary =
      "inbox per worker, stealing, global wait queue, conditional preemption, dynamic quantum";
  static constexpr const char* kSource = "Synergy, chapter 5, Algorithms 5.2 and 5.3";
  static constexpr Preempts kPreempts = Preempts::kLong;
  static constexpr bool kElastic = true;
  static constexpr bool kSteers = true;  // with migrate_flows
  // With thresh_wqd = 0 cut requests are served "in a best-effort manner" (5.1.3.1).
  static constexpr MayStarve kMayStarve = MayStarve::kLong;
  static constexpr std::array<QueueDeclaration, 3> kQueues{{
      {"inbox", Scope::kPerWorker, Sharing::kStealable},
      {"waiting", Scope::kGlobal, Sharing::kShared, limits::kPriorityLevels, true},
      {"begun", Scope::kGlobal, Sharing::kShared, limits::kPriorityLevels, true},
  }};

  using Config = SynergyOptions;

  template <class V>
  static void visit(Config& config, V&& v) {
    Config::visit(config, v);
  }

  struct Worker {
    Nanos short_service;  // EMA of service times of requests never marked long; 0 = no sample yet
    bool reserved = false;  // when it chose last
    bool in_long = false;   // as it has published, with long_victims_first
    SynergyFlows flows;
  };
  struct Central {
    SynergyWaitQueue::Check last_check;
    SynergyReservation reservation;
  };
  struct Plan {
    uint32_t factor = 0;
    bool check_wait_queue = false;
    uint32_t reserved = 0;  // the first so many workers take no long requests
    SynergyWaitQueue::PerLevel target_ns{};  // by type: how long it may wait
  };

  explicit constexpr Synergy(Config config) : config_(config) {}

  bool interchangeable() const { return !reserves(); }
  Plan initial_plan() const {
    return {.factor = config_.quantum_factor, .check_wait_queue = false, .reserved = 0,
            .target_ns = {}};
  }

  // Algorithm 5.2. Reserved workers leave the wait queue to the others.
  template <class H>
  Job* next(Worker& worker, WorkerId me, H& host) const {
    worker.reserved = is_reserved(me, host);
    say_long(worker, me, false, host);
    if (!worker.reserved && host.plan().check_wait_queue) {  // lines 3-5
      if (Job* job = config_.waiting.dequeue(host)) return job;
    }
    Job* const job = host.take(inbox(me.value));  // lines 6-7
    if (config_.migrate_flows) worker.flows.note_pick(me, inbox(me.value), job, host);
    if (job != nullptr) return job;
    if (!worker.reserved) {  // lines 8-9
      if (Job* waited = config_.waiting.dequeue(host)) return waited;
    }
    return config_.stealing ? steal(worker, me, host) : nullptr;
  }

  // Not every request that a worker serves comes out of next().
  template <class H>
  void begins(Worker& worker, const Job& job, WorkerId me, H& host) const {
    say_long(worker, me, job.job_class == JobClass::kLong, host);
  }

  // 5.1.1.2: the EMA times the factor in force.
  template <class H>
  Nanos quantum(const Worker& worker, const Job&, H& host) const {
    if (worker.reserved) return std::max(config_.quantum_min, Nanos(1));  // it has to leave
    if (config_.fixed_quantum > Nanos()) return config_.fixed_quantum;
    return dynamic_quantum().of(worker.short_service, host.plan().factor);
  }

  CutsFor cuts_for() const {
    const bool by_level = config_.waiting.levels > 1 && !config_.waiting.by_type;
    const bool own = config_.conditional && !reserves() && !by_level;
    return own ? CutsFor::kOwnQueues : CutsFor::kUnknown;
  }

  // Algorithm 5.3, lines 14-18: preempt only if a new request waits at that worker. Waiting jobs
  // of the same level do not count, as their priority is the same (5.1.3.2); of a more urgent
  // level they do.
  template <class H>
  SliceDecision expired(const Job& job, WorkerId me, H& host) const {
    if (!config_.conditional || is_reserved(me, host)) return SliceDecision::kPreempt;
    if (host.depth(inbox(me.value)) > 0) return SliceDecision::kPreempt;  // lines 15-16
    if (config_.waiting.has_more_urgent(job, host)) return SliceDecision::kPreempt;
    return SliceDecision::kContinue;  // lines 17-18
  }

  template <class H>
  QueueRef requeue(const Job& job, RequeueReason, WorkerId me, H&) const {
    return config_.wait_queue ? config_.waiting.queue_of(job) : inbox(me.value);
  }

  // Reserved workers take no long requests.
  template <class H>
  bool may_serve(QueueRef, WorkerId worker, H& host) const {
    return !is_reserved(worker, host);
  }

  template <class H>
  uint32_t kind(WorkerId worker, H& host) const {
    return is_reserved(worker, host) ? 0 : 1;
  }

  // 5.1.1.2.
  void finished(Worker& worker, const Job& job, Nanos service) const {
    if (job.job_class == JobClass::kShort) dynamic_quantum().learn(worker.short_service, service);
  }

  // Algorithm 5.3, lines 5-12.
  template <class H>
  Plan adapt(Central& central, H& host) const {
    const bool congested =
        config_.thresh_wqd > Nanos() && config_.waiting.is_congested(central.last_check, host);
    Plan plan = host.plan();
    plan.factor = congested ? config_.congested_quantum_factor : config_.quantum_factor;
    plan.check_wait_queue = congested;
    if (reserves()) plan.reserved = central.reservation.workers(plan.reserved, host);
    if (config_.waiting.by_type) plan.target_ns = config_.waiting.targets(host);
    return plan;
  }

  Nanos adapt_period() const {
    if (config_.thresh_wqd > Nanos()) return config_.thresh_wqd;
    return reserves() || config_.waiting.by_type ? Nanos::millis(1) : Nanos::max();
  }

  void explain(const Plan& plan, uint32_t, Explanation& out) const {
    if (config_.fixed_quantum == Nanos()) {
      out.line("a slice of a long request is " + std::to_string(plan.factor) +
               " times what short requests take at that worker");
    }
    if (plan.reserved > 0) {
      out.line("the first " + std::to_string(plan.reserved) + " workers take no long requests");
    }
    out.line(plan.check_wait_queue
                 ? "the wait queue is congested, so workers look there before their own inbox"
                 : "workers look at their own inbox first, then at the wait queue");
  }

 private:
  static constexpr uint32_t kInbox = 0;
  static constexpr QueueRef inbox(uint32_t worker) { return {kInbox, worker}; }

  DynamicQuantum dynamic_quantum() const {
    return {config_.quantum_initial, config_.quantum_min, config_.quantum_max, config_.ema_shift,
            config_.ema_clip};
  }

  bool reserves() const { return config_.reserve && config_.wait_queue; }
  template <class H>
  static bool is_reserved(WorkerId worker, H& host) {
    return worker.value < host.plan().reserved;
  }

  // What a worker publishes with long_victims_first: the published code lists the workers whose
  // slices its timer core watches, which are those in long requests.
  static constexpr uint64_t kInNoLong = 0;
  static constexpr uint64_t kInLong = 1;
  template <class H>
  void say_long(Worker& worker, WorkerId me, bool is_long, H& host) const {
    if (!config_.long_victims_first || worker.in_long == is_long) return;
    worker.in_long = is_long;
    host.publish_hint(me, is_long ? kInNoLong : kInLong, is_long ? kInLong : kInNoLong);
  }

  // The published code, before lines 10-15: one request, whatever the threshold, from an inbox
  // whose worker will not come to it soon.
  template <class H>
  Job* steal_beside_long(WorkerId me, H& host) const {
    const uint32_t workers = host.workers();
    for (uint32_t i = 1; i < workers; ++i) {
      i += verb::find_deeper(host, kInbox, (me.value + i) % workers, workers - i, 0);
      if (i >= workers) break;
      const WorkerId victim{(me.value + i) % workers};
      if (host.hint(victim) != kInLong) continue;
      if (Job* job = host.steal(inbox(victim.value), inbox(me.value), 1)) return job;
    }
    return nullptr;
  }

  // Algorithm 5.2, lines 10-15. The batch is half of the victim's inbox.
  template <class H>
  Job* steal(Worker& worker, WorkerId me, H& host) const {
    if (config_.long_victims_first) {
      if (Job* job = steal_beside_long(me, host)) return job;
    }
    const uint32_t workers = host.workers();
    // A reserved worker is kept free for short requests, so it waits for no second one.
    const uint32_t threshold = is_reserved(me, host) ? 0 : config_.steal_threshold;
    for (uint32_t i = 1; i < workers; ++i) {
      i += verb::find_deeper(host, kInbox, (me.value + i) % workers, workers - i, threshold);
      if (i >= workers) break;
      const QueueRef victim = inbox((me.value + i) % workers);
      const uint32_t depth = host.depth(victim);
      if (depth <= threshold) continue;  // another worker was faster
      if (config_.migrate_flows) worker.flows.adopt(me, {victim.index}, host);
      const uint32_t batch = std::min((depth + 1) / 2, limits::kStealMax);
      if (Job* job = host.steal(victim, inbox(me.value), batch)) return job;
    }
    return nullptr;
  }

  Config config_;
};

}  // namespace rubato
