// SPDX-License-Identifier: Apache-2.0
//
// Stalls: when the machine takes a core from its worker, and for how long (Costs::Stalls). Drawn
// from a stream of its own, so that the requests of a run are the same with and without. The cores'
// stalls are independent of each other: together they come as often as those of all cores, and each
// hits any core. One owner.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "sim/costs.h"
#include "workload/sampling.h"

namespace rubato::sim {

struct Stall {
  Instant at = Instant::never();
  Nanos length;
  uint32_t core = 0;  // not if it hits all of them
};

// Fails with one line where the two do not go together.
inline Status check_stalls(const Costs::Stalls& stalls) {
  constexpr Nanos kShortest = Nanos::micros(1);
  if (stalls.every == Nanos() && stalls.length == Nanos()) return Done{};
  if (stalls.every < kShortest) return Error{"stalls.every takes 1us or more, or is left out"};
  if (stalls.length == Nanos()) return Error{"stalls.length is missing: a stall takes time"};
  if (stalls.length >= stalls.every) return Error{"stalls.length takes less than stalls.every"};
  return Done{};
}

// The machine stalls.
inline bool any(const Costs::Stalls& stalls) {
  return stalls.every > Nanos() && stalls.length > Nanos();
}

class Stalls {
 public:
  // `seed` is that of the run. Requires settings that pass check_stalls().
  Stalls(const Costs::Stalls& settings, uint32_t workers, uint64_t seed)
      : settings_(settings), workers_(workers), prng_(seed ^ kStream) {}

  bool any() const { return sim::any(settings_); }
  bool of_all_cores() const { return settings_.hits == StallsHit::kMachine; }

  // The next one; they come in order. Requires any().
  Stall next() {
    const double cores = of_all_cores() ? 1 : workers_;
    last_ = last_ + drawn(static_cast<double>(settings_.every.count()) / cores);
    Stall stall{.at = last_, .length = settings_.length};
    if (settings_.lengths == StallLengths::kExponential) {
      stall.length = drawn(static_cast<double>(settings_.length.count()));
    }
    if (!of_all_cores()) stall.core = prng_.below(workers_);
    return stall;
  }

 private:
  static constexpr uint64_t kStream = 0x2545f4914f6cdd1du;

  Nanos drawn(double mean_ns) {
    return Nanos(static_cast<int64_t>(mean_ns * sample_exponential(prng_) + 0.5));
  }

  Costs::Stalls settings_;
  uint32_t workers_;
  Prng prng_;
  Instant last_;
};

}  // namespace rubato::sim
