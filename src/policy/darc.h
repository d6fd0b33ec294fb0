// SPDX-License-Identifier: Apache-2.0
//
// DARC (Persephone, sections 3 and 4): some cores are kept idle for short requests. Requests are
// queued by type; each group of types of similar service time owns as many workers as its share of
// the demand asks for, shorter groups may also use the workers of longer ones, never the reverse.
// Pure; see policy/contract.h for who calls what.
//
// Workers are given out in ascending order of service time, so a reservation is one number per
// type: the first worker that may serve it. Worker w serves the types that begin at or before w,
// shortest first. That is Algorithm 1 seen from the worker that is free.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "base/limits.h"
#include "policy/contract.h"

namespace rubato {

class Darc {
 public:
  static constexpr const char* kName = "darc";
  static constexpr const char* kSummary =
      "typed queues; cores reserved for short types by demand; shorter types steal from longer";
  static constexpr const char* kSource = "Persephone, SOSP 2021, section 3, Algorithms 1 and 2";
  static constexpr Preempts kPreempts = Preempts::kNothing;
  static constexpr std::array<QueueSpec, 2> kQueues{{
      {"typed", Scope::kGlobal, Sharing::kShared, limits::kTypes},  // lane 0: unknown types
      {"unprofiled", Scope::kGlobal, Sharing::kShared},             // c-FCFS, until types are known
  }};

  struct Config {
    double delta = 1.2;         // types whose service times are within this factor form a group
    uint32_t spillway = 1;      // last workers, which also serve unknown types
    uint32_t reserved = 0;      // DARC-static: workers for the shortest type; 0 = by demand
    uint32_t window = 50'000;   // requests of a profiling window, at least
    double slowdown = 10;       // target: waits beyond this many service times call for an update
    double drift = 0.1;         // change of a type's share of the demand that calls for an update
    uint32_t ema_shift = 1;     // weight of a new window's service time is 2^-shift
    Nanos check = Nanos::millis(1);  // how often the window is looked at
  };

  template <class V>
  static void visit(Config& c, V&& v) {
    v(OptionInfo{"delta", "", 1, 1000, "types within this factor of the shortest form a group"},
      c.delta);
    v(OptionInfo{"spillway", "", 1, limits::kMaxWorkers, "workers that also serve unknown types"},
      c.spillway);
    v(OptionInfo{"reserved", "", 0, limits::kMaxWorkers,
                 "DARC-static: workers for the shortest type only; 0 = by demand"},
      c.reserved);
    v(OptionInfo{"window", "", 1, 1e9, "requests of a profiling window, at least"}, c.window);
    v(OptionInfo{"slowdown", "", 0, 1e6, "waits beyond this many service times call for an update"},
      c.slowdown);
    v(OptionInfo{"drift", "", 0, 1, "change of a type's demand that calls for an update"}, c.drift);
    v(OptionInfo{"ema_shift", "", 0, 16, "weight of a new window's service time is 2^-this"},
      c.ema_shift);
    v(OptionInfo{"check", "us", 1, 1e7, "how often the profile is looked at"}, c.check);
  }

  using Worker = None;

  struct Type {
    Served before;      // at the begin of the window
    Nanos service;      // moving average; 0 = never seen
    double demand = 0;  // share of all work when the reservation was made
  };
  struct Central {
    std::array<Type, limits::kTypes> types{};
  };

  // The reservation. Until the first window closes no type is known, and all is c-FCFS.
  struct Plan {
    uint32_t types = 0;                               // known ones, of which
    std::array<uint8_t, limits::kTypes> order{};      //   the i-th shortest is order[i],
    std::array<uint16_t, limits::kTypes> first{};     //   served by workers first[i] and above,
    std::array<uint16_t, limits::kTypes> reserved{};  //   of which so many are its group's own
    std::array<bool, limits::kTypes> known{};         // by type
  };

  explicit constexpr Darc(Config config) : config_(config) {}

  template <class H>
  QueueRef route(const Job& job, WorkerId, H& host) const {
    const uint32_t type = std::min(job.type, limits::kTypes - 1);
    if (host.plan().types == 0) return kUnprofiled;
    return typed(host.plan().known[type] ? type : 0);
  }

  // Algorithm 1: types by ascending service time, on their own workers and on those of longer ones.
  template <class H>
  Job* next(Worker&, WorkerId me, H& host) const {
    if (Job* job = host.take(kUnprofiled)) return job;
    const Plan& plan = host.plan();
    for (uint32_t i = 0; i < plan.types && plan.first[i] <= me.value; ++i) {
      if (Job* job = host.take(typed(plan.order[i]))) return job;
    }
    return me.value >= spillway_first(host.workers()) ? host.take(typed(0)) : nullptr;
  }

  // 3, "profiling the workload": a window closes once it has samples enough, some type waits
  // beyond its target, and the demand is no longer that of the reservation.
  template <class H>
  Plan adapt(Central& central, H& host) const {
    std::array<Served, limits::kTypes> window = served_since(central, host);
    uint64_t samples = 0;
    for (const Served& served : window) samples += served.count;
    if (samples < config_.window) return host.plan();
    const bool first_window = host.plan().types == 0;
    const bool delayed = first_window || waits_too_long(central, window);
    close_window(central, window, host);
    const std::array<double, limits::kTypes> demands = demands_of(central, window);
    if (!first_window && !(delayed && has_drifted(central, demands))) return host.plan();
    for (uint32_t t = 0; t < limits::kTypes; ++t) central.types[t].demand = demands[t];
    return reserve(central, host.workers());
  }

  Nanos adapt_period() const { return config_.check; }

  // Algorithm 2, from the types' demands and service times. Public for tests and displays.
  Plan reserve(const Central& central, uint32_t workers) const {
    Plan plan = by_service_time(central);
    uint32_t taken = 0;
    for (uint32_t i = 0; i < plan.types;) {
      const uint32_t end = end_of_group(central, plan, i);
      double demand = 0;
      for (uint32_t member = i; member < end; ++member) {
        demand += central.types[plan.order[member]].demand * workers;
      }
      const uint32_t wanted = config_.reserved > 0 ? fixed_share(i, workers) : rounded(demand);
      // When all are taken the group gets the spillway, which it shares.
      const uint32_t first = std::min(taken, spillway_first(workers));
      const uint32_t got = std::max(1u, std::min(wanted, workers - first));
      for (uint32_t member = i; member < end; ++member) {
        plan.first[member] = static_cast<uint16_t>(first);
        plan.reserved[member] = static_cast<uint16_t>(got);
      }
      taken = first + got;
      i = end;
    }
    return plan;
  }

 private:
  static constexpr QueueRef kUnprofiled{1, 0};
  static constexpr QueueRef typed(uint32_t type) { return {0, type}; }

  uint32_t spillway_first(uint32_t workers) const {
    return workers - std::min(config_.spillway, workers);
  }

  // Fractions up to a half are left to stealing, larger ones get a worker; nobody gets none.
  static uint32_t rounded(double demand) {
    const double whole = std::floor(demand);
    const double up = demand - whole > 0.5 ? whole + 1 : whole;
    return std::max(1u, static_cast<uint32_t>(up));
  }

  uint32_t fixed_share(uint32_t rank, uint32_t workers) const {
    return rank == 0 ? config_.reserved : workers;
  }

  Plan by_service_time(const Central& central) const {
    Plan plan;
    for (uint32_t t = 1; t < limits::kTypes; ++t) {
      if (central.types[t].service == Nanos()) continue;
      plan.known[t] = true;
      plan.order[plan.types++] = static_cast<uint8_t>(t);
    }
    std::stable_sort(plan.order.begin(), plan.order.begin() + plan.types,
                     [&](uint8_t a, uint8_t b) {
                       return central.types[a].service < central.types[b].service;
                     });
    return plan;
  }

  // One past the last type whose service time is within delta of the group's shortest.
  uint32_t end_of_group(const Central& central, const Plan& plan, uint32_t begin) const {
    const auto service = [&](uint32_t i) {
      return static_cast<double>(central.types[plan.order[i]].service.count());
    };
    uint32_t end = begin + 1;
    while (end < plan.types && service(end) < config_.delta * service(begin)) ++end;
    return end;
  }

  template <class H>
  std::array<Served, limits::kTypes> served_since(const Central& central, H& host) const {
    std::array<Served, limits::kTypes> window;
    for (uint32_t t = 0; t < limits::kTypes; ++t) {
      const Served now = host.served(t);
      const Served& before = central.types[t].before;
      window[t] = {now.count - before.count, now.service - before.service,
                   now.waited - before.waited};
    }
    return window;
  }

  bool waits_too_long(const Central& central,
                      const std::array<Served, limits::kTypes>& window) const {
    for (uint32_t t = 1; t < limits::kTypes; ++t) {
      if (window[t].count == 0) continue;
      const double wait = static_cast<double>(window[t].waited.count()) /
                          static_cast<double>(window[t].count);
      const double target =
          config_.slowdown * static_cast<double>(central.types[t].service.count());
      if (wait > target) return true;
    }
    return false;
  }

  template <class H>
  void close_window(Central& central, const std::array<Served, limits::kTypes>& window,
                    H& host) const {
    for (uint32_t t = 0; t < limits::kTypes; ++t) {
      Type& type = central.types[t];
      type.before = host.served(t);
      if (window[t].count == 0) continue;
      const Nanos mean = window[t].service / static_cast<int64_t>(window[t].count);
      const int64_t weight = int64_t{1} << config_.ema_shift;
      const Nanos average =
          type.service == Nanos() ? mean : type.service + (mean - type.service) / weight;
      type.service = std::max(average, Nanos(1));
    }
  }

  // Equation 1: the share of the work that each type asks for.
  std::array<double, limits::kTypes> demands_of(
      const Central& central, const std::array<Served, limits::kTypes>& window) const {
    std::array<double, limits::kTypes> demands{};
    double all = 0;
    for (uint32_t t = 1; t < limits::kTypes; ++t) {
      demands[t] = static_cast<double>(window[t].count) *
                   static_cast<double>(central.types[t].service.count());
      all += demands[t];
    }
    for (double& demand : demands) demand = all > 0 ? demand / all : 0;
    return demands;
  }

  bool has_drifted(const Central& central,
                   const std::array<double, limits::kTypes>& demands) const {
    for (uint32_t t = 1; t < limits::kTypes; ++t) {
      const double reserved = central.types[t].demand;
      if (std::abs(demands[t] - reserved) > config_.drift * std::max(reserved, demands[t])) {
        return true;
      }
    }
    return false;
  }

  Config config_;
};

}  // namespace rubato
