// SPDX-License-Identifier: Apache-2.0
//
// SynergyReservation: how many workers Synergy's option `reserve` keeps for short requests
// (Persephone, Algorithm 2, from what the application says at run time instead of a classifier).
// State of the context that runs `adapt`; pure.
#pragma once

#include <algorithm>
#include <cmath>

#include "policy/contract.h"

namespace rubato {

class SynergyReservation {
 public:
  static constexpr uint64_t kWindow = 1000;  // requests that are looked at together, at least

  // The workers to reserve: the share of short requests in the work of the last window, fractions
  // up to a half left to others (Algorithm 2), and never all; `current` while the window is open.
  template <class H>
  uint32_t workers(uint32_t current, H& host) {
    const Served shorts = host.served_as(JobClass::kShort);
    const Served longs = host.served_as(JobClass::kLong);
    const uint64_t count = shorts.count + longs.count - short_before_.count - long_before_.count;
    if (count < kWindow) return current;
    const Nanos short_work = shorts.service - short_before_.service;
    const Nanos long_work = longs.service - long_before_.service;
    short_before_ = shorts;
    long_before_ = longs;
    if (long_work <= Nanos()) return 0;  // no long request to keep away
    const double share = static_cast<double>(short_work.count()) /
                         static_cast<double>((short_work + long_work).count());
    const double wanted = std::ceil(share * host.workers() - 0.5);
    return std::min(static_cast<uint32_t>(std::max(wanted, 1.0)), host.workers() - 1);
  }

 private:
  Served short_before_;
  Served long_before_;
};

}  // namespace rubato
