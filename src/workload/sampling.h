// SPDX-License-Identifier: Apache-2.0
//
// Random choices that are the same on every platform: they use comparisons, integer operations and
// single correctly rounded floating-point operations only, never a library's logarithm, and no
// product that a compiler could fuse with a sum. Pure functions of the generator handed in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/prng.h"

namespace rubato {

// Exponential with mean 1, by von Neumann ("Various techniques used in connection with random
// digits", 1951): draw descending runs of uniforms; a run of odd length accepts its first member as
// the fraction, every rejected run adds 1. About 4.3 uniforms per value.
inline double sample_exponential(Prng& prng) {
  for (double whole = 0;; whole += 1) {
    const uint64_t first = prng.next();
    uint64_t last = first;
    bool odd = true;
    for (uint64_t u = prng.next(); u <= last; u = prng.next()) last = u, odd = !odd;
    if (odd) return whole + static_cast<double>(first >> 11) * 0x1.0p-53;
  }
}

// Picks an index with given positive weights.
class WeightedChoice {
 public:
  WeightedChoice() = default;

  // Requires weights that are not empty, not negative, and not all 0.
  explicit WeightedChoice(const std::vector<double>& weights) {
    double total = 0;
    for (double w : weights) total += w;
    RUBATO_CHECK(total > 0);
    double sum = 0;
    for (double w : weights) {
      sum += w;
      limits_.push_back(sum / total);
    }
    limits_.back() = 1.0;
  }

  // Requires a non-empty choice.
  uint32_t pick(Prng& prng) const {
    if (limits_.size() == 1) return 0;
    const auto found = std::upper_bound(limits_.begin(), limits_.end() - 1, prng.uniform());
    return static_cast<uint32_t>(found - limits_.begin());
  }

 private:
  std::vector<double> limits_;  // upper end of each index's part of [0, 1)
};

}  // namespace rubato
