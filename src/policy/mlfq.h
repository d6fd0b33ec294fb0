// SPDX-License-Identifier: Apache-2.0
//
// A multilevel feedback queue by TiKV's rule: a request sinks to the next level when it has been
// served for longer than that level's limit. A worker draws the level that it looks at first: the
// top one by a chance that makes its share of the work what it should be, below it each level four
// times as often as all under it. So short requests go first, and nobody starves. Pure;
// policy/contract.h says when the host calls what.
//
// TiKV lets several tasks be one group, whose times add up; here each request is its own, as there
// by default. There one chance is kept for all workers and adjusted after a second of work; here
// each worker keeps its own. There a task yields when it likes, here it is cut after a quantum.
#pragma once

#include <algorithm>
#include <array>

#include "base/check.h"
#include "policy/contract.h"
#include "policy/fixed_quantum.h"

namespace rubato {

class Mlfq : public FixedQuantum {
 public:
  static constexpr const char* kName = "mlfq";
  static constexpr const char* kSummary =
      "three levels by time served so far; the top one gets its share of the work, none starves";
  static constexpr const char* kSource =
      "TiKV, yatp, src/queue/multilevel.rs; after Corbato et al., AFIPS 1962";
  static constexpr Preempts kPreempts = Preempts::kEverything;
  static constexpr bool kWorkConserving = true;
  static constexpr bool kInterchangeable = true;
  static constexpr uint32_t kLevels = 3;
  static constexpr std::array<QueueDeclaration, 1> kQueues{{
      {"level", Scope::kGlobal, Sharing::kShared, kLevels},
  }};

  struct Config {
    Nanos quantum = Nanos::micros(10);
    Nanos first = Nanos::millis(5);
    Nanos second = Nanos::millis(100);
    double share = 0.8;
    Nanos adjust = Nanos::seconds(1);
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    visit_quantum(c.quantum, v);
    v(OptionInfo{"first", "us", 0.1, 1e7, "service after which a request leaves the top level"},
      c.first);
    v(OptionInfo{"second", "us", 0.1, 1e7, "service after which it sinks to the last level"},
      c.second);
    v(OptionInfo{"share", "", 0, 1, "of the work that is to be done in the top level"}, c.share);
    v(OptionInfo{"adjust", "us", 1, 1e8, "work of a worker between two looks at that share"},
      c.adjust);
  }

  struct Worker {
    uint32_t chance = 800;  // of the top level, per mille
    Nanos on_top{};         // work since the last look, in the top level and in all
    Nanos in_all{};
  };
  using Central = None;
  using Plan = None;

  explicit constexpr Mlfq(Config config) : FixedQuantum(config.quantum), config_(config) {}

  // No `route`: a request that arrives goes to the top level.

  template <class H>
  Job* next(Worker& worker, WorkerId, H& host) const {
    const uint32_t drawn = draw(worker, host);
    for (uint32_t i = 0; i < kLevels; ++i) {
      if (Job* job = host.take(level((drawn + i) % kLevels))) return job;
    }
    return nullptr;
  }

  static constexpr CutsFor cuts_for() { return CutsFor::kAnyQueue; }

  template <class H>
  SliceDecision expired(const Job&, WorkerId, H& host) const {
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < kLevels; ++i) waiting += host.depth(level(i));
    return preempt_if(waiting > 0);
  }

  template <class H>
  QueueRef requeue(const Job& job, RequeueReason, WorkerId, H&) const {
    if (job.attained < config_.first) return level(0);
    return level(job.attained < config_.second ? 1 : 2);
  }

  void finished(Worker& worker, const Job&, Nanos service) const {
    worker.on_top += std::min(service, config_.first);
    worker.in_all += service;
    RUBATO_DCHECK(worker.on_top <= worker.in_all);
    if (worker.in_all >= config_.adjust) adjust(worker);
  }

 private:
  static constexpr uint32_t kStep = 60;  // all three per mille
  static constexpr uint32_t kLeast = 500;
  static constexpr uint32_t kMost = 980;
  static constexpr double kTolerance = 0.05;
  static constexpr uint32_t kRatio = 4;  // of the level in the middle to the last one

  static constexpr QueueRef level(uint32_t number) { return {0, number}; }

  template <class H>
  static uint32_t draw(const Worker& worker, H& host) {
    if (host.random(1000) < worker.chance) return 0;
    return host.random(kRatio + 1) < kRatio ? 1 : 2;
  }

  void adjust(Worker& worker) const {
    const double share = static_cast<double>(worker.on_top.count()) /
                         static_cast<double>(worker.in_all.count());
    if (config_.share - share > kTolerance) worker.chance = std::min(worker.chance + kStep, kMost);
    if (share - config_.share > kTolerance) {
      worker.chance = std::max(worker.chance - kStep, kLeast);
    }
    RUBATO_DCHECK(worker.chance >= kLeast && worker.chance <= kMost);
    worker.on_top = worker.in_all = Nanos();
  }

  Config config_;
};

}  // namespace rubato
