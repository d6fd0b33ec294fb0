// SPDX-License-Identifier: Apache-2.0
//
// Histograms for tests of what they are written as.
#pragma once

#include <cstdint>

#include "base/prng.h"
#include "metrics/histogram.h"

namespace rubato::testing {

// Of `values` values of 3 to 42 bits.
inline Histogram drawn(uint64_t seed, int values) {
  Histogram histogram;
  Prng prng(seed);
  for (int i = 0; i < values; ++i) {
    histogram.record(Nanos(static_cast<int64_t>(prng.next() >> (22 + prng.below(40)))));
  }
  return histogram;
}

}  // namespace rubato::testing
