// SPDX-License-Identifier: Apache-2.0
//
// AdvertisedWeight: what part of its usual share of connections a server asks a load balancer for,
// from how it fares. It falls by a fifth per look while the server refuses requests or they wait
// longer than the target, and comes back in small steps when they wait for less than half of it;
// between the two it stays. A server that refuses most of what comes, even at the least weight,
// asks for none, and for some again once it has been well for a while. So a balancer that looks
// now and then sees a steady number, and servers that are loaded together do not take turns in
// being drained.
//
// Pure: the host brings counters and time, every kLookEvery. One owner at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace rubato::overload {

// Counters since the start, and what is true now.
struct ServerHealth {
  uint64_t served = 0;
  uint64_t refused = 0;  // for overload or full queues
  Nanos delay;           // how long requests wait for their turn
};

class AdvertisedWeight {
 public:
  static constexpr Nanos kLookEvery = Nanos::millis(50);
  static constexpr int kFull = 100;  // percent
  static constexpr int kLeast = 2;

  explicit AdvertisedWeight(Nanos target) : target_(target) {}

  void look(const ServerHealth& health) {
    const auto served = static_cast<double>(health.served - last_.served);
    const auto refused = static_cast<double>(health.refused - last_.refused);
    last_ = health;
    delay_ns_ += (static_cast<double>(health.delay.count()) - delay_ns_) / kDelayLooks;
    const double share = refused == 0 ? 0 : refused / (served + refused);
    const auto target = static_cast<double>(target_.count());
    const bool ill = share > kManyRefused || delay_ns_ > target;
    const bool well = refused == 0 && delay_ns_ < target / 2;
    well_looks_ = well ? well_looks_ + 1 : 0;
    hopeless_looks_ = percent_ == kLeast && share > kMostRefused ? hopeless_looks_ + 1 : 0;
    if (ill) percent_ = std::max(percent_ * 4 / 5, kLeast);
    if (well && !drains_) percent_ = std::min(percent_ + kStep, kFull);
    if (hopeless_looks_ >= kPatience) drains_ = true;
    if (well_looks_ >= kPatience) drains_ = false;
  }

  bool drains() const { return drains_; }
  // kLeast .. kFull, where it does not drain.
  int percent() const { return percent_; }

 private:
  static constexpr double kDelayLooks = 4;      // the delay is averaged over about so many
  static constexpr double kManyRefused = 0.01;  // of what came between two looks
  static constexpr double kMostRefused = 0.5;
  static constexpr int kStep = 2;
  static constexpr int kPatience = 20;  // looks: a second

  Nanos target_;
  ServerHealth last_;
  double delay_ns_ = 0;
  int percent_ = kFull;
  int well_looks_ = 0;
  int hopeless_looks_ = 0;
  bool drains_ = false;
};

}  // namespace rubato::overload
