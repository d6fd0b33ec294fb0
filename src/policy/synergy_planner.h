// SPDX-License-Identifier: Apache-2.0
//
// SynergyPlanner: what the combinations of Synergy with other systems compute on the slow path: how
// many workers to keep for short requests (Persephone, Algorithm 2, from what the application says
// at run time instead of a classifier), and how long each type may wait. State of the context that
// runs `adapt`; pure.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "base/limits.h"
#include "policy/contract.h"

namespace rubato {

class SynergyPlanner {
 public:
  static constexpr uint64_t kWindow = 1000;  // requests that are looked at together, at least

  // The workers to reserve: the share of short requests in the work of the last window, fractions
  // up to a half left to others (Algorithm 2), and never all; `current` while the window is open.
  template <class H>
  uint32_t reserve(uint32_t current, H& host) {
    const Served shorts = host.served_as(JobClass::kShort);
    const Served longs = host.served_as(JobClass::kLong);
    const uint64_t count = shorts.count + longs.count - short_before_.count - long_before_.count;
    if (count < kWindow) return current;
    const Nanos short_work = shorts.service - short_before_.service;
    const Nanos long_work = longs.service - long_before_.service;
    short_before_ = shorts;
    long_before_ = longs;
    if (long_work <= Nanos()) return 0;  // nobody to be kept from
    const double share = static_cast<double>(short_work.count()) /
                         static_cast<double>((short_work + long_work).count());
    const double wanted = std::ceil(share * host.workers() - 0.5);
    return std::min(static_cast<uint32_t>(std::max(wanted, 1.0)), host.workers() - 1);
  }

  // By level: the SLO, in service times, times the mean service time since the start of the types
  // that wait there; 0 = none of them has been served. The last level is for all types beyond.
  template <size_t N, class H>
  void targets(const std::array<double, N>& slo, std::array<double, N>& target_ns, H& host) const {
    Served rest;
    for (uint32_t type = N - 1; type < limits::kTypes; ++type) add(host.served(type), rest);
    for (uint32_t level = 0; level < N; ++level) {
      const Served served = level + 1 < N ? host.served(level) : rest;
      target_ns[level] = served.count == 0 ? 0
                                           : slo[level] *
                                                 static_cast<double>(served.service.count()) /
                                                 static_cast<double>(served.count);
    }
  }

 private:
  static void add(const Served& served, Served& sum) {
    sum.count += served.count;
    sum.service += served.service;
  }

  Served short_before_;
  Served long_before_;
};

}  // namespace rubato
