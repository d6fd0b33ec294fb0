// SPDX-License-Identifier: Apache-2.0
//
// Random choices that are the same on every platform: they use comparisons, integer operations,
// single correctly rounded floating-point operations and workload/elementary.h only, never a
// library's logarithm. Pure functions of the generator handed in.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/prng.h"
#include "workload/elementary.h"

namespace rubato {
namespace internal {

// The layers of the ziggurat under exp(-x) (Marsaglia and Tsang, "The ziggurat method for
// generating random variables", 2000): of equal area, the lowest with the tail beyond kTail.
struct Ziggurat {
  static constexpr size_t kLayers = 256;
  static constexpr double kTail = 7.69711747013104972;
  static constexpr double kArea = 3.949659822581572e-3;

  std::array<uint64_t, kLayers> inside;  // 53-bit draws below are under the curve at any height
  std::array<double, kLayers> step;      // width of a layer in 2^-53
  std::array<double, kLayers + 1> x;     // right end of a layer, falling to 0
  std::array<double, kLayers + 1> y;     // of the curve there
};
extern const Ziggurat kZiggurat;

// What is left of sample_exponential when a draw is outside of its layer's inner part.
double sample_exponential_outside(Prng& prng, uint64_t bits);

}  // namespace internal

// Exponential with mean 1. One draw and one multiplication, 98.9 % of the time.
inline double sample_exponential(Prng& prng) {
  const uint64_t bits = prng.next();
  const size_t layer = bits % internal::Ziggurat::kLayers;
  const uint64_t steps = bits >> 11;
  if (steps < internal::kZiggurat.inside[layer]) [[likely]]
    return static_cast<double>(steps) * internal::kZiggurat.step[layer];
  return internal::sample_exponential_outside(prng, bits);
}

// Normal with mean 0 and variance 1.
double sample_normal(Prng& prng);

// Picks an index with given weights in the same time however many there are (the alias method:
// Walker, 1977; Vose, 1991). A share is right to 2^-32.
class AliasChoice {
 public:
  AliasChoice() = default;

  // Requires weights that are not empty, not negative, and not all 0.
  explicit AliasChoice(const std::vector<double>& weights);

  // Requires a non-empty choice. Takes one draw, or none if there is nothing to choose.
  uint32_t pick(Prng& prng) const {
    if (cells_.size() == 1) return 0;
    const uint64_t bits = prng.next();
    const auto index = static_cast<uint32_t>(((bits >> 32) * cells_.size()) >> 32);
    const Cell cell = cells_[index];
    return static_cast<uint32_t>(bits) < cell.own ? index : cell.other;
  }

 private:
  struct Cell {
    uint32_t own;    // in 2^-32: how much of the cell is its own index's
    uint32_t other;  // whose the rest is
  };
  std::vector<Cell> cells_;
};

// Types of a mix and flows are picked in the same way.
using WeightedChoice = AliasChoice;

}  // namespace rubato
