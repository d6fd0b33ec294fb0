// SPDX-License-Identifier: Apache-2.0
#include "workload/count_scales.h"

#include <algorithm>
#include <bit>

namespace rubato {

// Like the carry of a binary counter: a pair is one slot of the next scale.
void CountScales::carry(size_t scale, uint64_t count) {
  for (; scale < kScales; ++scale) {
    Scale& s = scales_[scale];
    const uint64_t bit = uint64_t{1} << scale;
    halves_ ^= bit;
    if ((halves_ & bit) != 0) {
      s.first = count;
      return;
    }
    const double difference = static_cast<double>(s.first) - static_cast<double>(count);
    count += s.first;
    ++s.pairs;
    s.paired += static_cast<double>(count);
    s.squares += difference * difference;
  }
}

// In blocks as long as what is left and what has been seen allow: a block that is aligned with the
// slots of a scale is one empty slot of it, and holds only empty pairs of the scales below.
void CountScales::add_empty(uint64_t slots) {
  while (slots > 0) {
    const int aligned = std::countr_zero(halves_ | (uint64_t{1} << kScales));
    const int level = std::min(aligned, static_cast<int>(std::bit_width(slots)) - 1);
    for (int below = 0; below < level; ++below) {
      scales_[static_cast<size_t>(below)].pairs += uint64_t{1} << (level - 1 - below);
    }
    carry(static_cast<size_t>(level), 0);
    slots -= uint64_t{1} << level;
    // With nothing begun on any scale, whole slots above the coarsest are pairs of all of them.
    if (halves_ == 0 && slots >> kScales > 1) {
      const uint64_t blocks = slots >> kScales;
      for (size_t i = 0; i < kScales; ++i) scales_[i].pairs += blocks << (kScales - 1 - i);
      slots -= blocks << kScales;
    }
  }
}

std::vector<double> CountScales::allan() const {
  std::vector<double> factors;
  for (const Scale& s : scales_) {
    if (s.pairs < kFewestPairs || s.paired == 0) break;
    factors.push_back(s.squares / s.paired);
  }
  return factors;
}

}  // namespace rubato
