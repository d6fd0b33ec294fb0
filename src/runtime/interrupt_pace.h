// SPDX-License-Identifier: Apache-2.0
//
// InterruptPace: how long requests run at least between two interrupts of their worker's own timer,
// so that these take less than half of its time, whatever they cost: a few microseconds, or tens of
// them in a virtual machine. Otherwise a slice that is shorter than its interrupt leaves its
// request no time at all. The cost is that of the interrupts so far, by how late they came; the way
// back, which nobody sees, costs about as much. Used on the worker's thread only.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace rubato {

class InterruptPace {
 public:
  // An interrupt has come so long after its time.
  void came(Nanos late) { late_ += (std::clamp(late, Nanos(), kLatest) - late_) / kWeight; }

  Nanos shortest() const { return late_ * kTimes; }

 private:
  static constexpr int64_t kWeight = 8;  // one counts an eighth
  static constexpr int64_t kTimes = 4;   // once and back, and as long again for the request
  static constexpr Nanos kLatest = Nanos::micros(250);  // later: its CPU was another thread's

  Nanos late_;  // on average
};

}  // namespace rubato
