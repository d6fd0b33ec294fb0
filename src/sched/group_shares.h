// SPDX-License-Identifier: Apache-2.0
//
// GroupShares: whose turn it is on one worker, of several groups of requests that share it by
// weight: start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996, section 2) with the measured
// service in place of packet lengths, as requests do not know theirs before. Whoever is behind is
// next. While all of them have work each gets weight / sum of weights of the time, to within one
// slice; a group without work leaves its time to the others and saves none up.
//
// The virtual time of a group is kept as its lead over that of the group served last, so that no
// number grows with time. One per worker, used by that worker only; plain memory.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "base/time.h"
#include "policy/job.h"

namespace rubato::sched {

inline constexpr uint32_t kUsualWeight = 100;
inline constexpr uint32_t kMostWeight = 10'000;

// Weights, 1 .. kMostWeight.
struct GroupWeights {
  uint32_t policy = kUsualWeight;  // of all requests that are in no other group
  std::vector<uint32_t> own{};     // of the groups from kFirstOwnGroup on
};

class GroupShares {
 public:
  // Requires at most limits::kGroups groups, with the two that always are.
  explicit GroupShares(const GroupWeights& weights)
      : count_(kFirstOwnGroup + static_cast<uint32_t>(weights.own.size())) {
    RUBATO_CHECK(count_ <= limits::kGroups);
    uint32_t sum = weights.policy;
    for (uint32_t weight : weights.own) sum += weight;
    set_weight(kPolicyGroup, weights.policy);
    set_weight(kControlGroup, (sum + kControlShare - 2) / (kControlShare - 1));
    for (uint32_t i = 0; i < weights.own.size(); ++i) {
      set_weight(kFirstOwnGroup + i, weights.own[i]);
    }
  }

  uint32_t count() const { return count_; }

  // ---- Which groups wait here: bits, except the policy's ----------------------------------------

  uint32_t waiting() const { return waiting_; }
  // It may be that others have taken the last one meanwhile.
  void waits(uint32_t group) {
    waiting_ |= bit(group);
    competes_ = true;
  }
  void is_empty(uint32_t group) { waiting_ &= ~bit(group); }
  static constexpr uint32_t bit(uint32_t group) { return 1u << group; }
  uint32_t all_but_policy() const { return (bit(count_) - 1) & ~bit(kPolicyGroup); }

  // ---- Turns ------------------------------------------------------------------------------------

  // The group of these bits whose turn it is. Of groups that are equal the policy's is the last:
  // the others have just come. Requires a bit.
  uint32_t first(uint32_t among) const {
    RUBATO_DCHECK(among != 0);
    const uint32_t others = among & ~bit(kPolicyGroup);
    if (others == 0) return kPolicyGroup;
    auto best = static_cast<uint32_t>(std::countr_zero(others));
    for (uint32_t rest = others & (others - 1); rest != 0; rest &= rest - 1) {
      const auto group = static_cast<uint32_t>(std::countr_zero(rest));
      if (lead_[group] < lead_[best]) best = group;
    }
    const bool policy = (among & bit(kPolicyGroup)) != 0;
    return policy && lead_[kPolicyGroup] < lead_[best] ? kPolicyGroup : best;
  }

  // In each group the requests that were preempted have one turn in so many while others come.
  bool prefers_suspended(uint32_t group) {
    return ++turns_[group] % kSuspendedTurn == 0;
  }

  // A request of the group begins, or goes on.
  void begins(uint32_t group) {
    if (!competes_) [[likely]] return;
    const int64_t lead = lead_[group];
    served_ |= bit(group);
    competes_ = waiting_ != 0;
    for (uint32_t i = 0; i < count_; ++i) {
      lead_[i] = std::max<int64_t>(lead_[i] - lead, 0);
      competes_ |= lead_[i] != 0;
    }
    competes_ |= group != kPolicyGroup;
  }

  // A group whose turn it is has no request. Has it had one since the last call for it?
  bool ran_empty(uint32_t group) {
    const bool served = (served_ & bit(group)) != 0;
    served_ &= ~bit(group);
    return served;
  }

  // The request that has begun leaves the worker, after so much service since.
  void charge(uint32_t group, Nanos service) {
    if (!competes_) [[likely]] return;
    lead_[group] += cost(group, service);
  }

  // Is `other`, which waits, to go on in place of a request of `group` that has run for `service`?
  bool is_due(uint32_t other, uint32_t group, Nanos service) const {
    return lead_[other] < lead_[group] + cost(group, service);
  }

 private:
  // The control plane has at least one part in so many, whatever the others weigh.
  static constexpr uint32_t kControlShare = 8;
  static constexpr uint32_t kSuspendedTurn = 8;
  // Virtual time has so many units in a nanosecond of weight 1, so that no weight is off by more
  // than 0.5 %.
  static constexpr int64_t kScale = 1 << 20;
  // Longer service without a switch counts as that long; the sum of two fits in a lead.
  static constexpr Nanos kMostService = Nanos::seconds(3600);

  void set_weight(uint32_t group, uint32_t weight) {
    RUBATO_CHECK(weight >= 1);
    price_[group] = (kScale + weight / 2) / weight;
  }
  int64_t cost(uint32_t group, Nanos service) const {
    return std::clamp(service, Nanos(), kMostService).count() * price_[group];
  }

  const uint32_t count_;
  uint32_t waiting_ = 0;
  uint32_t served_ = 0;  // since they ran empty
  bool competes_ = false;  // some group waits, or leads: otherwise there is nothing to keep
  std::array<int64_t, limits::kGroups> lead_{};
  std::array<int64_t, limits::kGroups> price_{};
  std::array<uint32_t, limits::kGroups> turns_{};
};

}  // namespace rubato::sched
