// SPDX-License-Identifier: Apache-2.0
//
// Idling: how long an idle worker spins before it sleeps. Adaptive idling pays at most one spin per
// wake-up, and after a row of spins that found nothing it barely spins at all, so that a quiet
// server uses no CPU. One per worker, its thread only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "runtime/options.h"

namespace rubato {

class Idling {
 public:
  Idling(Idle mode, Nanos spin) : mode_(mode), spin_(spin) {}

  // The worker found nothing to do at `now`. True = sleep, false = look again.
  bool should_park(Instant now) {
    if (idle_since_ == Instant::never()) idle_since_ = now;
    if (mode_ == Idle::kSpin) return false;
    return now - idle_since_ >= (vain_ >= kVainSpins ? spin_ / 16 : spin_);
  }

  // It slept, after a spin that found nothing.
  void parked() {
    vain_ = std::min(vain_ + 1, kVainSpins);
    idle_since_ = Instant::never();
  }

  // It has something to do at `now`.
  void found_work(Instant now) {
    if (idle_since_ == Instant::never()) return;
    if (now - idle_since_ < spin_) vain_ = 0;
    idle_since_ = Instant::never();
  }

 private:
  static constexpr uint32_t kVainSpins = 16;

  Idle mode_;
  Nanos spin_;
  Instant idle_since_ = Instant::never();
  uint32_t vain_ = 0;
};

}  // namespace rubato
