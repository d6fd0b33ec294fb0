// SPDX-License-Identifier: Apache-2.0
//
// SBB: no central component at all. Each worker has its own queue, preempts itself, and finds work
// for itself on two levels: it steals requests from workers that are Busy, and has flows of workers
// that are Overloaded steered to itself. Pure; policy/contract.h says when the host calls what.
//
// A worker's queue is two: a block of its own, which nobody else looks at, and behind it what
// thieves may see. It goes in rounds: what waits when the one before is done, at most 64 requests,
// is the round's, and is moved to the block 16 at a time.
#pragma once

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/limits.h"
#include "policy/contract.h"
#include "policy/fixed_quantum.h"
#include "policy/flow_migration.h"

namespace rubato {

class Sbb : public FixedQuantum {
 public:
  static constexpr const char* kName = "sbb";
  static constexpr const char* kSummary =
      "no central part: steals from busy workers, takes flows from overloaded ones, own timers";
  static constexpr const char* kSource = "SBB, OSDI 2026, section 4";
  static constexpr Preempts kPreempts = Preempts::kEverything;
  static constexpr bool kSteers = true;
  static constexpr bool kElastic = true;
  static constexpr bool kParksEmpty = true;  // nobody takes from the block, nor from Light workers
  static constexpr std::array<QueueDeclaration, 2> kQueues{{
      {"queue", Scope::kPerWorker, Sharing::kStealable},
      // Stealable by no thief, but for the host where its worker is stuck.
      {"block", Scope::kPerWorker, Sharing::kStealable},
  }};

  // The three switches are the ablation of Fig. 13: all off is "without balancing", stealing alone
  // is "baseline ts", with enhanced it is "enhanced ts", all on is "hybrid balancing".
  struct Config {
    bool stealing = true;
    bool enhanced = true;   // O1 to O5 (4.5.2)
    bool migration = true;  // of flows (4.5.1)
    Nanos quantum = Nanos::micros(5);
    uint32_t block = 16;   // requests that are the owner's alone, and that it dequeues at once
    uint32_t round = 64;   // requests of a round, at most
    uint32_t victims = 0;  // that a thief looks at; 0 = all. The published code: 4
    FlowMigration::Config flows{};

    // Only enhanced stealing has rounds, of which it makes loads, and adopts flows.
    constexpr VoidedOption voided() const {
      const Config plain;
      if (!enhanced) {
        if (block != plain.block) return {"block", "enhanced=off"};
        if (round != plain.round) return {"round", "enhanced=off"};
        if (victims != plain.victims) return {"victims", "enhanced=off"};
        if (const char* const option = flows.changed()) return {option, "enhanced=off"};
      }
      if (!stealing && victims != plain.victims) return {"victims", "stealing=off"};
      if (flows.rule_life != plain.flows.rule_life) {
        if (!stealing) return {"rule_life", "stealing=off"};
        if (!migration) return {"rule_life", "migration=off"};
      }
      const char* const threshold = flows.changed_threshold();
      if (flows.published && threshold != nullptr) return {threshold, "published_thresholds=on"};
      return {};
    }
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"stealing", "", 0, 1, "idle workers take requests from others"}, c.stealing);
    v(OptionInfo{"enhanced", "", 0, 1,
                 "owner's block, batches, only from Busy ones, last victim first"},
      c.enhanced);
    v(OptionInfo{"migration", "", 0, 1, "idle workers take flows from Overloaded ones"},
      c.migration);
    visit_quantum(c.quantum, v);
    v(OptionInfo{"block", "", 1, limits::kStealMax, "requests that only their worker sees"},
      c.block);
    v(OptionInfo{"round", "", 1, 4096, "requests of a round, at most"}, c.round);
    v(OptionInfo{"victims", "", 0, limits::kMaxWorkers, "workers that a thief looks at; 0 = all"},
      c.victims);
    FlowMigration::visit(c.flows, v);
  }

  struct Worker {
    FlowMigration::Worker flows;
    uint32_t round_left = 0;             // requests of the round that are not in the block yet
    uint32_t last_victim = UINT32_MAX;   // the worker it stole from; at first its neighbour
  };
  using Central = None;
  using Plan = None;

  bool interchangeable() const { return config_.victims == 0; }

  explicit constexpr Sbb(Config config)
      : FixedQuantum(config.quantum), config_(config), flows_(config.flows) {}

  template <class H>
  Job* next(Worker& worker, WorkerId me, H& host) const {
    Job* job = own(worker, me, host);
    if (config_.migration) {
      if (job == nullptr) flows_.idle(worker.flows);
      if (job != nullptr) flows_.running(worker.flows, me, *job, host);
    }
    if (job == nullptr && config_.stealing) {
      job = config_.enhanced ? steal(worker, me, host) : steal_as_baseline(me, host);
    }
    return job;
  }

  static constexpr CutsFor cuts_for() { return CutsFor::kOwnQueues; }

  // A request that is cut goes behind what waits; with nothing there it would come back at once.
  template <class H>
  SliceDecision expired(const Job&, WorkerId me, H& host) const {
    return preempt_if(host.depth(queue(me)) + host.depth(block(me)) > 0);
  }

  template <class H>
  QueueRef requeue(const Job&, RequeueReason, WorkerId me, H&) const {
    return queue(me);
  }

 private:
  static constexpr uint32_t kQueue = 0;
  static constexpr QueueRef queue(WorkerId worker) { return {kQueue, worker.value}; }
  static constexpr QueueRef block(WorkerId worker) { return {1, worker.value}; }

  template <class H>
  Job* own(Worker& worker, WorkerId me, H& host) const {
    if (!config_.enhanced) return host.take(queue(me));
    if (Job* job = host.take(block(me))) return job;
    // A thief that is faster may leave something, which the worker would leave in its sleep.
    for (;;) {
      if (worker.round_left == 0) begin_round(worker, me, host);
      if (worker.round_left == 0) return nullptr;
      const uint32_t batch = std::min(config_.block, worker.round_left);
      RUBATO_DCHECK(batch >= 1 && batch <= limits::kStealMax);  // fits the block
      if (Job* job = host.steal(queue(me), block(me), batch)) {
        worker.round_left -= batch;
        return job;
      }
      worker.round_left = 0;
    }
  }

  // Workers judge themselves by what they receive per round (4.5.1).
  template <class H>
  void begin_round(Worker& worker, WorkerId me, H& host) const {
    worker.round_left = std::min(host.depth(queue(me)), config_.round);
    flows_.round(worker.flows, me, worker.round_left, host);
  }

  // O5: from the last victim on, then by turns; at first each begins at another place.
  template <class H>
  Job* steal(Worker& worker, WorkerId me, H& host) const {
    const uint32_t workers = host.workers();
    const uint32_t start =
        worker.last_victim < workers ? worker.last_victim : (me.value + 1) % workers;
    const uint32_t looks = looks_from(start, me, workers);
    for (uint32_t step = 0; step < looks; ++step) {
      step += verb::find_deeper(host, kQueue, (start + step) % workers, looks - step, 0);
      if (step >= looks) break;
      const WorkerId victim{(start + step) % workers};
      if (victim == me) continue;
      if (Job* job = take_from(victim, worker, me, host)) return job;
    }
    return nullptr;
  }

  // Oneself, if on the way, comes on top of the victims.
  uint32_t looks_from(uint32_t start, WorkerId me, uint32_t workers) const {
    if (config_.victims == 0 || config_.victims >= workers) return workers;
    const uint32_t to_me = (me.value + workers - start) % workers;
    return config_.victims + (to_me < config_.victims ? 1 : 0);
  }

  // A Light worker can do its own work. Of an Overloaded one a flow is preferred; if it offers
  // none, requests help too, also when this worker has just taken the one it offered: it still
  // has nothing to run, and would ask again at once.
  template <class H>
  Job* take_from(WorkerId victim, Worker& worker, WorkerId me, H& host) const {
    if (FlowMigration::load_of(host.hint(victim)) == FlowMigration::Load::kLight) return nullptr;
    if (config_.migration) flows_.adopt(worker.flows, me, victim, host);
    // O2 to O4: half of what is visible, in one go, into the block, where nobody steals it again. A
    // race that is lost ends this victim's turn.
    RUBATO_DCHECK(victim != me);
    const uint32_t visible = host.depth(queue(victim));
    if (visible == 0) return nullptr;
    const uint32_t half = std::min(visible - visible / 2, limits::kStealMax);
    Job* const job = host.steal(queue(victim), block(me), half);
    if (job != nullptr) worker.last_victim = victim.value;
    return job;
  }

  // As Shenango does: half of whatever queue is not empty, into the own one, from a random start.
  template <class H>
  Job* steal_as_baseline(WorkerId me, H& host) const {
    const uint32_t workers = host.workers();
    const uint32_t start = host.random(workers);
    for (uint32_t step = 0; step < workers; ++step) {
      step += verb::find_deeper(host, kQueue, (start + step) % workers, workers - step, 0);
      const WorkerId victim{(start + step) % workers};
      if (step >= workers || victim == me) continue;
      const uint32_t waiting = host.depth(queue(victim));
      const uint32_t half = std::min(waiting - waiting / 2, limits::kStealMax);
      if (half == 0) continue;
      if (Job* job = host.steal(queue(victim), queue(me), half)) return job;
    }
    return nullptr;
  }

  Config config_;
  FlowMigration flows_;
};

}  // namespace rubato
