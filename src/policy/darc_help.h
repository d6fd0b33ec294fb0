// SPDX-License-Identifier: Apache-2.0
//
// DarcHelp: what Darc does, beside its paper, for types that fall behind (docs/decisions/013):
// numbers of workers that hold while the demand stays near the half between two, and types that go
// first on their workers and get more of them. DarcPlan is the reservation that it and Darc make.
// Plain values; pure.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/limits.h"
#include "policy/contract.h"
#include "policy/needs.h"
#include "policy/profile.h"

namespace rubato {

// The reservation. Until the first window closes no type is known, and all is c-FCFS.
struct DarcPlan {
  Ranking ranking;
  std::array<uint16_t, limits::kTypes> first{};     // by rank: workers from this on may serve it,
  std::array<uint16_t, limits::kTypes> reserved{};  // of which so many are its group's own
  std::array<uint8_t, limits::kTypes> group{};      // from 1 on, from the shortest to the longest
  std::array<bool, limits::kTypes> behind{};        // they go first on the workers they may use,
  std::array<uint8_t, limits::kTypes> in_turn{};    // in this order,
  uint32_t somebody_behind = 0;                     // and are so many

  // The types that the worker may serve, the shortest first. `first` rises with the rank.
  std::span<const uint8_t> served_by(uint32_t worker) const {
    const auto begin = first.begin(), end = begin + ranking.types;
    RUBATO_DCHECK(std::is_sorted(begin, end));
    const auto beyond = std::upper_bound(begin, end, worker);
    return std::span(ranking.order).first(static_cast<size_t>(beyond - begin));
  }

  // The number of workers of types `begin` to `end` of another ranking, if they are one group here
  // and alone in it, else 0.
  uint32_t reserved_for(const Ranking& other, uint32_t begin, uint32_t end) const {
    const auto rank = [&](uint32_t i) {
      const auto known = ranking.order.begin();
      return static_cast<uint32_t>(
          std::find(known, known + ranking.types, other.order[i]) - known);
    };
    const uint32_t at = rank(begin);
    if (at == ranking.types) return 0;
    const auto last = group.begin() + ranking.types;
    if (std::count(group.begin(), last, group[at]) != end - begin) return 0;
    for (uint32_t i = begin + 1; i < end; ++i) {
      const uint32_t member = rank(i);
      if (member == ranking.types || group[member] != group[at]) return 0;
    }
    return reserved[at];
  }

  // The longest group first: it may use the fewest workers, and these are enough for it. Within the
  // group the shortest.
  void put_in_turn() {
    for (uint32_t end = ranking.types, begin = end; end > 0; end = begin) {
      do {
        --begin;
      } while (begin > 0 && group[begin - 1] == group[begin]);
      for (uint32_t i = begin; i < end && behind[i]; ++i) {
        in_turn[somebody_behind++] = static_cast<uint8_t>(i);
      }
    }
  }
};

class DarcHelp {
 public:
  // `hold`: how far beyond a half the demand must go to change a group's number.
  explicit constexpr DarcHelp(double hold) : hold_(hold) {}

  // A request of the first type in turn that fell behind and may use that worker.
  template <class H>
  static Job* next(const DarcPlan& plan, WorkerId me, H& host) {
    for (uint32_t turn = 0; turn < plan.somebody_behind; ++turn) {
      const uint32_t i = plan.in_turn[turn];
      if (plan.first[i] > me.value) continue;
      if (Job* job = host.take(QueueRef{0, plan.ranking.order[i]})) return job;
    }
    return nullptr;
  }

  // By rank of the first type of a group: from which worker on that group is served at the latest,
  // because it or a longer one fell behind. Each shorter group keeps a worker before those of the
  // next, as long as there is one: a type that shares all its workers with longer requests waits
  // for those. `begins`: by rank, the first types of groups.
  static std::array<uint32_t, limits::kTypes> latest(
      const std::array<bool, limits::kTypes>& begins, const Ranking& ranking, const Needs& needs) {
    std::array<uint32_t, limits::kTypes> latest{};
    uint32_t worker = Needs::kAnyWorker;
    for (uint32_t i = ranking.types; i-- > 0;) {
      worker = std::min(worker, needs.latest(ranking.order[i]));
      latest[i] = worker;
      if (begins[i] && worker != Needs::kAnyWorker && worker > 0) --worker;
    }
    return latest;
  }

  // How many workers a group gets that had so many.
  uint32_t held(double demand, uint32_t had) const {
    const double off = demand - had;
    const double reach = 0.5 + hold_;
    return had > 0 && demand > 0 && off > -reach && off <= reach ? had : rounded(demand);
  }

  // A type that fell behind begins at least one worker earlier from now on, and so early that there
  // are as many workers as it and all longer types need. False = none did.
  bool serve_earlier(const DarcPlan& plan, const std::array<bool, limits::kTypes>& behind,
                     const Profile& profile, Needs& needs, uint32_t workers) const {
    bool any = false;
    double need = 0;
    for (uint32_t i = plan.ranking.types; i-- > 0;) {
      const uint32_t type = plan.ranking.order[i];
      need += needs.of(type);
      if (!behind[i] || plan.first[i] == 0) continue;
      any = true;
      if (needs.overloaded()) continue;
      uint32_t first = plan.first[i] - (plan.behind[i] ? 1u : 0u);
      while (first > 0 && workers - first + hold_ < need) --first;
      needs.serve_from(profile, type, first);
    }
    return any;
  }

  // Does a group now ask for another number of workers than it has? Not the last, which has what
  // the others leave.
  bool outgrew(const DarcPlan& plan, const std::array<double, limits::kTypes>& demands,
               uint32_t workers) const {
    for (uint32_t i = 0, begin = 0; i < plan.ranking.types; ++i) {
      if (i + 1 < plan.ranking.types && plan.group[i + 1] == plan.group[i]) continue;
      double demand = 0;
      for (; begin <= i; ++begin) demand += demands[plan.ranking.order[begin]] * workers;
      const uint32_t has = plan.reserved[i];
      if (plan.first[i] + has < workers && held(demand, has) != has) return true;
    }
    return false;
  }

 private:
  // Fractions up to a half are left to stealing, larger ones get a worker. Types that came get one
  // at least; those that did not (all of a group, in the last window) keep their rank and steal.
  static uint32_t rounded(double demand) {
    if (demand <= 0) return 0;
    const double whole = std::floor(demand);
    const double up = demand - whole > 0.5 ? whole + 1 : whole;
    return std::max(1u, static_cast<uint32_t>(up));
  }

  double hold_;
};

}  // namespace rubato
