// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of clock calibration: the rate that a handful of paired readings of two clocks
// agree on. It uses no clock, so that it can be tested. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>

namespace rubato {

// One reading of both clocks, as nearly simultaneous as possible.
struct ClockPair {
  uint64_t cycles = 0;
  int64_t ns = 0;
};

// Nanoseconds per cycle: the median of the slopes of all pairs of readings at least a third of them
// apart (the Theil-Sen estimator), so that two of nine readings may be spoilt by an interruption
// without effect. 0 if no slope is positive. Requires pairs.size() <= 64.
double nanos_per_cycle(std::span<const ClockPair> pairs);

}  // namespace rubato
