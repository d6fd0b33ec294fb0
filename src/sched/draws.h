// SPDX-License-Identifier: Apache-2.0
//
// Draws: the random numbers of one caller of a policy's hooks. What a worker draws in a look that
// finds nothing is taken back, so that its next look draws the same: how often idle workers look,
// which is a matter of the host, changes no decision, and hosts that give a caller the same seed
// decide the same. One owner.
#pragma once

#include <cstdint>

#include "base/prng.h"

namespace rubato::sched {

class Draws {
 public:
  // Callers of one seed draw independent numbers.
  constexpr Draws(uint64_t seed, uint32_t caller)
      : numbers_(SplitMix64(mixed(seed) + caller).next()) {}

  // Uniform in 0 .. bound-1. Requires bound > 0.
  constexpr uint32_t below(uint32_t bound) { return scale_down(numbers_.next(), bound); }

 private:
  static constexpr uint64_t mixed(uint64_t seed) { return SplitMix64(seed).next(); }

  SplitMix64 numbers_;
};

}  // namespace rubato::sched
