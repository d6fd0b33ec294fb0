// SPDX-License-Identifier: Apache-2.0
//
// TimerCore: the core that scans the deadlines of all workers and notifies those whose slice has
// ended (Clock::kTimerCore). It sends one notification at a time. One owner.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/prng.h"
#include "base/time.h"

namespace rubato::sim {

class TimerCore {
 public:
  TimerCore(Nanos scan, uint32_t workers, uint64_t seed)
      : pass_(scan.count() * int64_t{workers}), prng_(seed) {}

  // From the end of a slice until the scan comes by.
  Nanos until_seen() {
    return pass_ > 0 ? Nanos(prng_.below(static_cast<uint32_t>(pass_))) : Nanos();
  }
  // The timer core is busy for `length` once it is free: with a notification, or because the
  // machine stands still. Returns when that is over.
  Instant occupy(Instant at, Nanos length) {
    free_at_ = std::max(free_at_, at) + length;
    return free_at_;
  }

  // A notification reached its worker after the request was done.
  void note_late() { ++late_; }
  uint64_t late() const { return late_; }

 private:
  int64_t pass_;
  Prng prng_;
  Instant free_at_;
  uint64_t late_ = 0;
};

}  // namespace rubato::sim
