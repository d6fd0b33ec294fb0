// SPDX-License-Identifier: Apache-2.0
//
// AdvertisedWeight: what part of its usual share of connections a server asks a load balancer for,
// from how it fares. It falls by a fifth per look while the server refuses requests, or they wait
// longer than the target, or, where clients have credits, a tenth of the sessions have none: a
// server with credits keeps its delay at the target whatever the load, and excess load shows as
// clients kept waiting outside (CoreSync III-B). It comes back in small steps when requests wait
// for less than half of the target and hardly any session is without a credit; between the two it
// stays. A server that refuses most of what comes, or has no credit for nearly all sessions, even
// at the least weight, asks for none, and for some again once it has been well for a while. So a
// balancer that looks now and then sees a steady number, and servers that are loaded together do
// not take turns in being drained.
//
// Sessions have no credit either when they come all at once, or when a stall has emptied the pool,
// which then fills in some 100 ms. So the part of them is averaged over longer than the delay, and
// where requests hardly wait it is no reason to ask for less, only not to ask for more.
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
  int64_t sessions = 0;  // of clients with credits, 0 = there are none
  int64_t drained = 0;   // of these, without a credit
};

class AdvertisedWeight {
 public:
  static constexpr Nanos kLookEvery = Nanos::millis(50);
  static constexpr int kFull = 100;  // percent
  static constexpr int kLeast = 2;

  explicit AdvertisedWeight(Nanos target) : target_(target) {}

  void look(const ServerHealth& health) {
    const double served = more(health.served, last_.served);
    const double refused = more(health.refused, last_.refused);
    last_ = health;
    follow(delay_ns_, static_cast<double>(health.delay.count()), kDelayLooks);
    follow(drained_, part(health.drained, health.sessions), kDrainedLooks);
    const double share = refused == 0 ? 0 : refused / (served + refused);
    const auto target = static_cast<double>(target_.count());
    const double drained = delay_ns_ > target / 4 ? drained_ : 0;
    const bool ill = share > kManyRefused || delay_ns_ > target || drained > kManyDrained;
    const bool well = refused == 0 && delay_ns_ < target / 2 && drained_ < kFewDrained;
    const bool hopeless = share > kMostRefused || drained > kMostDrained;
    well_looks_ = well ? well_looks_ + 1 : 0;
    hopeless_looks_ = percent_ == kLeast && hopeless ? hopeless_looks_ + 1 : 0;
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
  static constexpr double kDrainedLooks = 10;   // the part of sessions without credit
  static constexpr double kManyRefused = 0.01;  // of what came between two looks
  static constexpr double kMostRefused = 0.5;
  static constexpr double kFewDrained = 0.02;   // of the sessions
  static constexpr double kManyDrained = 0.1;
  static constexpr double kMostDrained = 0.9;
  static constexpr int kStep = 2;
  static constexpr int kPatience = 20;  // looks: a second

  // The host reads its counters one after the other: a sum of them may seem to go back by a little.
  static double more(uint64_t now, uint64_t before) {
    return now > before ? static_cast<double>(now - before) : 0;
  }
  static double part(int64_t some, int64_t all) {
    return all > 0 ? static_cast<double>(some) / static_cast<double>(all) : 0;
  }
  static void follow(double& average, double value, double looks) {
    average += (value - average) / looks;
  }

  Nanos target_;
  ServerHealth last_;
  double delay_ns_ = 0;
  double drained_ = 0;
  int percent_ = kFull;
  int well_looks_ = 0;
  int hopeless_looks_ = 0;
  bool drains_ = false;
};

}  // namespace rubato::overload
