// SPDX-License-Identifier: Apache-2.0
//
// DARC (Persephone, sections 3 and 4): some cores are kept idle for short requests. Requests are
// queued by type; each group of types of similar service time owns as many workers as its share of
// the demand asks for, shorter groups may also use the workers of longer ones, never the reverse.
// Pure; policy/contract.h says when the host calls what.
//
// Workers are given out in ascending order of service time, so a reservation is one number per
// type: the first worker that may serve it. Worker w serves the types that begin at or before w,
// shortest first. That is Algorithm 1 seen from the worker that is free. Of several idle workers
// the algorithm takes one that is reserved for the type first, which is the lowest of those that
// may serve it. Not where all workers are taken before a group's turn, or it is helped: its first
// worker is then lowered into those of shorter types, which it shares, and the lowest may be one of
// these.
//
// The paper counts demand by completions and rounds it, so that a type that gets too few workers
// looks rare, and longer types may be left with fewer than they need. `literal` does that. Without
// it the demand is that of arrivals, no plan is made of a window in which the mix changes, and
// darc_help.h helps types that fall behind.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"
#include "base/limits.h"
#include "policy/contract.h"
#include "policy/darc_help.h"
#include "policy/explanation.h"
#include "policy/needs.h"
#include "policy/profile.h"

namespace rubato {

class Darc {
 public:
  static constexpr const char* kName = "darc";
  static constexpr const char* kSummary =
      "typed queues; cores reserved for short types by demand; shorter types steal from longer";
  static constexpr const char* kSource = "Persephone, SOSP 2021, section 3, Algorithms 1 and 2";
  static constexpr Preempts kPreempts = Preempts::kNothing;
  static constexpr bool kElastic = true;
  static constexpr bool kLowestIdleFirst = true;
  // "Favor short RPCs over longs" (Persephone, Table 5): shorter types use the workers of longer
  // ones, never the reverse, and unknown ones wait in a low priority queue (4.2).
  static constexpr MayStarve kMayStarve = MayStarve::kLong;
  static constexpr std::array<QueueDeclaration, 2> kQueues{{
      {"typed", Scope::kGlobal, Sharing::kShared, limits::kTypes, true},  // index 0: unknown types
      {"unprofiled", Scope::kGlobal, Sharing::kShared},             // c-FCFS, until types are known
  }};

  struct Config {
    double delta = 1.2;         // types whose service times are within this factor form a group
    uint32_t spillway = 1;      // last workers, which also serve unknown types
    uint32_t window = 50'000;   // requests of a profiling window, at least
    double slowdown = 10;       // target: waits beyond this many service times call for an update
    double drift = 0.1;         // change of a type's share of the demand that calls for an update
    uint32_t ema_shift = 1;     // weight of a new window's service time is 2^-shift
    Nanos check = Nanos::millis(1);  // how often the window is looked at
    bool literal = false;  // the paper's rule: demand by completions, only rounded
    double behind = 10;    // types that wait beyond this many service times are helped
    double hold = 0.15;    // how far beyond a half the demand must go to change a group's number

    constexpr VoidedOption voided() const {
      const Config plain;
      if (literal && behind != plain.behind) return {"behind", "literal=on"};
      if (literal && hold != plain.hold && hold > 0) return {"hold", "literal=on"};
      return {};
    }
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"delta", "", 1, 1000, "types within this factor of the shortest form a group"},
      c.delta);
    v(OptionInfo{"spillway", "", 1, limits::kMaxWorkers, "workers that also serve unknown types"},
      c.spillway);
    v(OptionInfo{"window", "", 1, 1e9, "requests of a profiling window, at least"}, c.window);
    v(OptionInfo{"slowdown", "", 0, 1e6, "waits beyond this many service times call for an update"},
      c.slowdown);
    v(OptionInfo{"drift", "", 0, 1, "change of a type's demand that calls for an update"}, c.drift);
    v(OptionInfo{"ema_shift", "", 0, 16, "weight of a new window's service time is 2^-this; ours"},
      c.ema_shift);
    v(OptionInfo{"check", "us", 1, 1e7, "how often the profile is looked at"}, c.check);
    v(OptionInfo{"literal", "", 0, 1,
                 "the paper's rule: demand by completions, not arrivals, and only rounded"},
      c.literal);
    v(OptionInfo{"behind", "", 1, 1e6,
                 "types that wait beyond this many service times on average are helped"},
      c.behind);
    v(OptionInfo{"hold", "", 0, 1,
                 "how far beyond a half a demand must go to change a group's number of workers"},
      c.hold);
  }

  using Worker = None;
  struct Central : Profile {
    Needs needs;
  };

  using Plan = DarcPlan;  // until the first window closes no type is known, and all is c-FCFS

  explicit constexpr Darc(Config config) : config_(config) {}

  template <class H>
  QueueRef route(const Job& job, WorkerId, H& host) const {
    const Ranking& ranking = host.plan().ranking;
    return ranking.types == 0 ? kUnprofiled : typed(ranking.queue_index_of(job.type));
  }

  // Algorithm 1: types by ascending service time, on their own workers and on those of longer ones.
  template <class H>
  Job* next(Worker&, WorkerId me, H& host) const {
    if (Job* job = host.take(kUnprofiled)) return job;
    const Plan& plan = host.plan();
    if (plan.somebody_behind) [[unlikely]] {
      if (Job* job = DarcHelp::next(plan, me, host)) return job;
    }
    if (Job* job = verb::take_first(host, kTyped, plan.served_by(me.value))) return job;
    return me.value >= spillway_first(host.workers()) ? host.take(typed(0)) : nullptr;
  }

  template <class H>
  bool may_serve(QueueRef q, WorkerId worker, H& host) const {
    if (q == kUnprofiled) return true;
    const Plan& plan = host.plan();
    for (uint32_t i = 0; i < plan.ranking.types; ++i) {
      if (plan.ranking.order[i] == q.index) return plan.first[i] <= worker.value;
    }
    return worker.value >= spillway_first(host.workers());
  }

  template <class H>
  uint32_t kind(WorkerId worker, H& host) const {
    const size_t types = host.plan().served_by(worker.value).size();
    return static_cast<uint32_t>(types) + (worker.value >= spillway_first(host.workers()) ? 1 : 0);
  }

  template <class H>
  Plan adapt(Central& central, H& host) const {
    if (config_.literal) {
      return has_new_profile(central, host) ? reserve(central, host.workers()) : host.plan();
    }
    if (!has_new_needs(central, host)) return host.plan();
    return reserve(central, central.needs, host.plan(), host.workers());
  }

  Nanos adapt_period() const { return config_.check; }

  // Algorithm 2, from the types' demands and service times. Public for tests and displays.
  Plan reserve(const Profile& profile, uint32_t workers) const {
    return reserve(profile, Needs(), Plan(), workers);
  }

  // The same, near the plan `before` and within what the types need.
  Plan reserve(const Profile& profile, const Needs& needs, const Plan& before,
               uint32_t workers) const {
    Plan plan;
    plan.ranking = profile.ranking();
    std::array<bool, limits::kTypes> begins{};
    for (uint32_t i = 0; i < plan.ranking.types; i = end_of_group(profile, plan.ranking, i)) {
      begins[i] = true;
    }
    const auto at_latest = DarcHelp::latest(begins, plan.ranking, needs);
    uint32_t taken = 0;
    uint8_t group = 0;
    for (uint32_t i = 0; i < plan.ranking.types; ++group) {
      const uint32_t end = end_of_group(profile, plan.ranking, i);
      const uint32_t had = before.reserved_for(plan.ranking, i, end);
      double demand = 0;
      bool behind = false;
      for (uint32_t member = i; member < end; ++member) {
        demand += profile.of(plan.ranking.order[member]).demand * workers;
        behind |= needs.latest(plan.ranking.order[member]) != Needs::kAnyWorker;
      }
      // When all are taken the group gets the spillway, which it shares.
      uint32_t first = std::min(taken, spillway_first(workers));
      if (!needs.overloaded()) first = std::min(first, at_latest[i]);
      behind &= first > 0 && !needs.overloaded();
      const uint32_t got = std::min(help().held(demand, had), workers - first);
      for (uint32_t member = i; member < end; ++member) {
        plan.first[member] = static_cast<uint16_t>(first);
        plan.reserved[member] = static_cast<uint16_t>(got);
        plan.group[member] = static_cast<uint8_t>(group + 1);
        plan.behind[member] = behind;
      }
      RUBATO_DCHECK(first + got <= workers);
      taken = first + got;
      i = end;
    }
    plan.put_in_turn();
    return plan;
  }

  // A sentence per type, from the shortest on.
  void explain(const Plan& plan, uint32_t workers, Explanation& out) const {
    if (plan.ranking.types == 0) {
      out.line("until " + std::to_string(config_.window) +
               " requests are done all of them wait in one queue, whatever their type");
      return;
    }
    for (uint32_t i = 0; i < plan.ranking.types; ++i) {
      const uint32_t first = plan.first[i], owned = plan.reserved[i];
      const uint32_t type = plan.ranking.order[i];
      out.line(out.type(type) + " (group " + std::to_string(plan.group[i]) + ") owns " +
               Explanation::workers(first, owned) + ", may steal " +
               Explanation::workers(first + owned, workers - first - owned) +
               ", waits in queue typed " + std::to_string(type) +
               (plan.behind[i] ? "; it fell behind and goes first on the workers from " +
                                     std::to_string(first) + " on"
                               : ""));
    }
    const uint32_t spillway = spillway_first(workers);
    out.line("other types are for " + Explanation::workers(spillway, workers - spillway) +
             " (the spillway) when nothing else waits there, and wait in queue typed 0");
  }

 protected:
  // 3, "profiling the workload": a window closes once it has samples enough; a request has been
  // seen to wait beyond its target (5.1: ten times what its type takes), or all did on average; and
  // the demand is no longer that of the reservation.
  template <class H>
  bool has_new_profile(Profile& profile, H& host) const {
    const uint64_t samples = profile.observe(host);
    note_heads(profile, host);
    if (samples < config_.window) return false;
    const bool first_window = host.plan().ranking.types == 0;
    const bool delayed = profile.somebody_was_late() || profile.waits_beyond(config_.slowdown);
    profile.close(config_.ema_shift);
    const auto demands = profile.demands();
    const bool drifted = profile.has_drifted(demands, config_.drift);
    if (!first_window && !(delayed && drifted)) return false;
    profile.adopt(demands);
    return true;
  }

  // The same by what comes instead of what is done. A type that falls behind calls for an update as
  // well, whatever its demand was.
  template <class H>
  bool has_new_needs(Central& central, H& host) const {
    Needs& needs = central.needs;
    needs.observe(host);
    const uint64_t samples = central.observe(host);
    note_heads(central, host);
    if (samples < config_.window) {
      if (2 * samples >= config_.window) needs.note_half(central, host.now());
      return false;
    }
    if (needs.changed_within(central, host.now())) {
      central.drop_window();
      needs.drop_window(host.now());
      return false;
    }
    const Ranking& ranking = host.plan().ranking;
    const bool delayed = central.somebody_was_late() || central.waits_beyond(config_.slowdown);
    std::array<bool, limits::kTypes> behind{};
    for (uint32_t i = 0; i < ranking.types; ++i) {
      behind[i] = needs.fell_behind(central, ranking.order[i], config_.behind);
    }
    central.close(config_.ema_shift, Profile::Another::kBeginsAnew);
    needs.close(central, config_.ema_shift, host.now(), host.workers());
    const bool starved = help().serve_earlier(host.plan(), behind, central, needs, host.workers());
    // One queue for all, as it is until then, does as much of each type as comes.
    const auto demands = ranking.types == 0 ? central.demands() : needs.demands();
    const bool drifted = central.has_drifted(demands, config_.drift) ||
                         help().outgrew(host.plan(), demands, host.workers());
    if (ranking.types > 0 && !(delayed && drifted) && !starved) return false;
    central.adopt(demands);
    return true;
  }

  uint32_t spillway_first(uint32_t workers) const {
    return workers - std::min(config_.spillway, workers);
  }

  // One past the last type whose service time is within delta of the group's shortest.
  uint32_t end_of_group(const Profile& profile, const Ranking& ranking, uint32_t begin) const {
    const auto service = [&](uint32_t i) {
      return static_cast<double>(profile.of(ranking.order[i]).service.count());
    };
    RUBATO_DCHECK(begin < ranking.types);
    uint32_t end = begin + 1;
    while (end < ranking.types && service(end) < config_.delta * service(begin)) ++end;
    return end;
  }

 private:
  template <class H>
  void note_heads(Profile& profile, H& host) const {
    const Ranking& ranking = host.plan().ranking;
    for (uint32_t i = 0; i < ranking.types; ++i) {
      const uint32_t type = ranking.order[i];
      const Instant since = host.oldest(typed(type));
      const Nanos waited = since == Instant::never() ? Nanos() : host.now() - since;
      profile.note_head(type, waited, config_.slowdown);
    }
  }

  DarcHelp help() const { return DarcHelp(config_.hold); }

  static constexpr QueueRef kUnprofiled{1, 0};
  static constexpr uint32_t kTyped = 0;
  static constexpr QueueRef typed(uint32_t type) { return {kTyped, type}; }

  Config config_;
};

}  // namespace rubato
