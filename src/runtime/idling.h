// SPDX-License-Identifier: Apache-2.0
//
// Idling: how long an idle worker spins before it sleeps. Spinning pays if work comes within that
// time, so adaptive idling spins only while the gaps between two pieces of work are, on average, no
// longer than a spin and a wake-up (gaps that were slept through include the wake-up); otherwise
// the worker sleeps at once and its CPU is free for other threads.
// Each worker has one, for its thread only.
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
    if (workless_since_ == Instant::never()) workless_since_ = now;
    if (spin_since_ == Instant::never()) spin_since_ = now;
    if (mode_ == Idle::kSpin) return false;
    return average_gap_ > spin_ + kWaking || now - spin_since_ >= spin_;
  }

  // The worker slept.
  void parked() { spin_since_ = Instant::never(); }

  // The worker has something to do at `now`.
  void found_work(Instant now) {
    if (workless_since_ == Instant::never()) return;
    const Nanos gap = std::min(now - workless_since_, spin_ * kLongestGap);
    average_gap_ += (gap - average_gap_) / kWeight;
    workless_since_ = spin_since_ = Instant::never();
  }

 private:
  static constexpr Nanos kWaking = Nanos::micros(50);
  static constexpr int64_t kWeight = 8;       // a gap counts an eighth
  static constexpr int64_t kLongestGap = 16;  // in spins, so that some 20 gaps forget a silence

  const Idle mode_;
  const Nanos spin_;
  Nanos average_gap_;  // between two pieces of work
  Instant workless_since_ = Instant::never();
  Instant spin_since_ = Instant::never();
};

}  // namespace rubato
