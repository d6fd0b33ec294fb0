// SPDX-License-Identifier: Apache-2.0
//
// Undisturbed: the latencies of the requests that no stall of the machine touched (stalls.h), kept
// beside those of all requests, never in their place.
//
// A stall is known only after its end, so a reply is held back for kStallHold before it is judged;
// the first requests of a longer stall may be judged too early, and stay in. Memory is bounded by
// kMaxHeld replies; beyond it the oldest are judged early. Times are since the start of the run.
// One owner at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/time.h"
#include "load/stalls.h"
#include "metrics/histogram.h"

namespace rubato::load {

inline constexpr Nanos kStallHold = Nanos::seconds(1);
inline constexpr size_t kMaxHeld = 1 << 20;

class Undisturbed {
 public:
  explicit Undisturbed(size_t types) : latency_(types) {}

  void stalled(const Stall& stall) { stalls_.add(stall); }

  // Adds a reply that belongs into the figures. Requires that `at` does not go back.
  void replied(uint32_t type, Nanos due, Nanos at);

  // Judges the replies for which all stalls are known at `now`. Nanos::max() judges all.
  void settle(Nanos now);

  const Stalls& stalls() const { return stalls_; }
  const Histogram& latency_of(uint32_t type) const { return latency_[type]; }

 private:
  struct Held {
    Nanos due, at;
    uint32_t type;
  };

  void judge_oldest();

  Stalls stalls_;
  std::deque<Held> held_;
  std::vector<Histogram> latency_;
};

}  // namespace rubato::load
