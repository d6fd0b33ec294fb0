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
#include "policy/explanation.h"
#include "policy/flow_migration.h"
#include "policy/synergy_planner.h"

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
  using PerLevel = std::array<double, limits::kPriorityLevels>;

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
    // Combinations with other systems, which the thesis does not have.
    bool migrate_flows = false;    // SBB, 4.5.1: flows of overloaded workers move to idle ones
    bool waiting_by_type = false;  // Shinjuku, 3.3: a wait queue per type, by wait over SLO
    PerLevel slo = {10, 10, 10, 10, 10, 10, 10, 10};  // of type i, in service times; the last: rest
    bool reserve = false;          // Persephone, Alg. 2: workers for short requests, by demand
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
    v(OptionInfo{"migrate_flows", "", 0, 1, "idle workers take flows from overloaded ones (sbb)"},
      c.migrate_flows);
    v(OptionInfo{"waiting_by_type", "", 0, 1,
                 "a wait queue per request type, the next by its wait over its SLO"},
      c.waiting_by_type);
    for (uint32_t type = 0; type < kSloNames.size(); ++type) {
      v(OptionInfo{kSloNames[type], "", 0.001, 1e9, kSloHelp[type]}, c.slo[type]);
    }
    v(OptionInfo{"reserve", "", 0, 1,
                 "as many workers as the demand of short requests take no long ones (darc)"},
      c.reserve);
  }

  struct Worker {
    Nanos short_service;  // EMA of service times of requests never marked long; 0 = no sample yet
    uint32_t picks = 0;   // from the inbox; migrate_flows only
    bool reserved = false;  // when it chose last
    FlowMigration::Worker flows;
  };
  struct Central {
    std::array<uint64_t, limits::kPriorityLevels> waiting_before{};  // produced, at the last check
    std::array<uint64_t, limits::kPriorityLevels> begun_before{};
    SynergyPlanner planner;
  };
  struct Plan {
    uint32_t factor = 0;
    bool check_wait_queue = false;
    uint32_t reserved = 0;  // the first so many workers take no long requests
    PerLevel target_ns{};   // by type: how long it may wait; waiting_by_type only
  };

  explicit constexpr Synergy(Config config) : config_(config) {}

  bool interchangeable() const { return !reserves(); }
  Plan initial_plan() const {
    return {.factor = config_.quantum_factor, .check_wait_queue = false, .reserved = 0,
            .target_ns = {}};
  }

  // Algorithm 5.2.
  template <class H>
  Job* next(Worker& worker, WorkerId me, H& host) const {
    const bool for_all = me.value >= host.plan().reserved;
    worker.reserved = !for_all;
    if (for_all && host.plan().check_wait_queue) {
      if (Job* job = take_waiting(host)) return job;
    }
    Job* const job = host.take(inbox(me.value));
    if (config_.migrate_flows) watch_flows(worker, me, job, host);
    if (job != nullptr) return job;
    if (for_all) {
      if (Job* waited = take_waiting(host)) return waited;
    }
    return config_.stealing ? steal(worker, me, host) : nullptr;
  }

  // 5.1.1.2: the EMA times the factor in force.
  template <class H>
  Nanos quantum(const Worker& worker, const Job&, H& host) const {
    if (worker.reserved) return std::max(config_.quantum_min, Nanos(1));  // it has to leave
    if (config_.fixed_quantum > Nanos()) return config_.fixed_quantum;
    return dynamic_quantum().of(worker.short_service, host.plan().factor);
  }

  // Algorithm 5.3, lines 14-18: preempt only if a new request waits at that worker. Waiting jobs
  // of the same level do not count, as their priority is the same (5.1.3.2); of a more urgent
  // level they do.
  template <class H>
  SliceDecision expired(const Job& job, WorkerId me, H& host) const {
    if (!config_.conditional) return SliceDecision::kPreempt;
    if (me.value < host.plan().reserved) return SliceDecision::kPreempt;
    if (host.depth(inbox(me.value)) > 0) return SliceDecision::kPreempt;
    // Types have targets, not priorities.
    if (config_.waiting_by_type) return SliceDecision::kContinue;
    for (uint32_t level = 0; level < level_of(job.priority); ++level) {
      if (host.depth(begun(level)) + host.depth(waiting(level)) > 0) return SliceDecision::kPreempt;
    }
    return SliceDecision::kContinue;
  }

  template <class H>
  QueueRef requeue(const Job& job, RequeueReason, WorkerId me, H&) const {
    if (!config_.wait_queue) return inbox(me.value);
    const bool resumed_before = job.preemptions > 1;
    const bool has_turn = resumed_before && job.attained < config_.long_turn;
    const uint32_t level = config_.waiting_by_type ? type_level(job.type) : level_of(job.priority);
    return has_turn ? begun(level) : waiting(level);
  }

  // Reserved workers take no long requests.
  template <class H>
  bool may_serve(QueueRef, WorkerId worker, H& host) const {
    return worker.value >= host.plan().reserved;
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
    const uint32_t levels = config_.thresh_wqd > Nanos() ? levels_in_use() : 0;
    for (uint32_t level = 0; level < levels; ++level) {
      congested |= host.consumed(waiting(level)) < central.waiting_before[level];
      congested |= host.consumed(begun(level)) < central.begun_before[level];
      central.waiting_before[level] = host.produced(waiting(level));
      central.begun_before[level] = host.produced(begun(level));
    }
    Plan plan = host.plan();
    plan.factor = congested ? config_.congested_quantum_factor : config_.quantum_factor;
    plan.check_wait_queue = congested;
    if (reserves()) plan.reserved = central.planner.reserve(plan.reserved, host);
    if (config_.waiting_by_type) central.planner.targets(config_.slo, plan.target_ns, host);
    return plan;
  }

  Nanos adapt_period() const {
    if (config_.thresh_wqd > Nanos()) return config_.thresh_wqd;
    return reserves() || config_.waiting_by_type ? Nanos::millis(1) : Nanos::max();
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
  static constexpr uint32_t kRound = 16;  // picks from the inbox, as the dequeued batch of SBB
  // Flows are moved for what stealing cannot cure: by the higher thresholds.
  static constexpr FlowMigration::Config kFlows{.published = true};
  static constexpr std::array<const char*, limits::kPriorityLevels> kSloNames{
      "slo_0", "slo_1", "slo_2", "slo_3", "slo_4", "slo_5", "slo_6", "slo_rest"};
  static constexpr std::array<const char*, limits::kPriorityLevels> kSloHelp{
      "waiting_by_type: SLO of unknown types, in service times",
      "SLO of type 1, in its service times",
      "SLO of type 2",
      "SLO of type 3",
      "SLO of type 4",
      "SLO of type 5",
      "SLO of type 6",
      "SLO of all other types"};
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

  static uint32_t type_level(uint32_t type) {
    return std::min(type, limits::kPriorityLevels - 1);
  }
  uint32_t levels_in_use() const {
    return config_.waiting_by_type ? limits::kPriorityLevels : config_.levels;
  }
  bool reserves() const { return config_.reserve && config_.wait_queue; }

  // Levels are strict: while a more urgent one has jobs, the others wait (7.4 gives them
  // priorities, not shares).
  template <class H>
  Job* take_waiting(H& host) const {
    if (config_.waiting_by_type) {
      if (Job* job = take_most_overdue(host)) return job;
    }
    for (uint32_t level = 0; level < levels_in_use(); ++level) {
      if (Job* job = host.take(begun(level))) return job;
      if (Job* job = host.take(waiting(level))) return job;
    }
    return nullptr;
  }

  // Of the types that wait the one whose head has waited longest in relation to its target.
  template <class H>
  Job* take_most_overdue(H& host) const {
    double highest = -1;
    uint32_t chosen = 0;
    for (uint32_t level = 0; level < limits::kPriorityLevels; ++level) {
      const Instant since = std::min(host.oldest(begun(level)), host.oldest(waiting(level)));
      const double target = host.plan().target_ns[level];
      if (since == Instant::never() || target <= 0) continue;
      const double overdue = static_cast<double>((host.now() - since).count()) / target;
      if (overdue > highest) highest = overdue, chosen = level;
    }
    if (highest < 0) return nullptr;
    if (Job* job = host.take(begun(chosen))) return job;
    return host.take(waiting(chosen));
  }

  // SBB judges a worker by what it receives per round; here that is what waits in its inbox.
  template <class H>
  void watch_flows(Worker& worker, WorkerId me, const Job* job, H& host) const {
    const FlowMigration migration{kFlows};
    if (job == nullptr || worker.picks++ % kRound == 0) {
      migration.round(worker.flows, me, host.depth(inbox(me.value)), host);
    }
    if (job == nullptr) migration.idle(worker.flows);
    if (job != nullptr) migration.running(worker.flows, me, *job, host);
  }

  // Algorithm 5.2, lines 10-15. The batch is half of the victim's inbox.
  template <class H>
  Job* steal(Worker& worker, WorkerId me, H& host) const {
    const uint32_t workers = host.workers();
    // A reserved worker is kept free for short requests, so it waits for no second one.
    const uint32_t threshold = me.value < host.plan().reserved ? 0 : config_.steal_threshold;
    for (uint32_t i = 1; i < workers; ++i) {
      i += verb::find_deeper(host, kInbox, (me.value + i) % workers, workers - i, threshold);
      if (i >= workers) break;
      const QueueRef victim = inbox((me.value + i) % workers);
      const uint32_t depth = host.depth(victim);
      if (depth <= threshold) continue;  // somebody was faster
      if (config_.migrate_flows) {
        FlowMigration(kFlows).adopt(worker.flows, me, {victim.index}, host);
      }
      const uint32_t batch = std::min((depth + 1) / 2, limits::kStealMax);
      if (Job* job = host.steal(victim, inbox(me.value), batch)) return job;
    }
    return nullptr;
  }

  Config config_;
};

}  // namespace rubato
