// SPDX-License-Identifier: Apache-2.0
//
// Picos: a price in picoseconds, finer than the two time types (base/time.h): three percent of an
// access of 8 ns are less than one. Plain values, safe on every thread.
#pragma once

#include <compare>
#include <cstdint>

#include "base/time.h"

namespace rubato {

class Picos {
 public:
  constexpr Picos() = default;
  constexpr explicit Picos(int64_t count) : count_(count) {}
  constexpr Picos(Nanos whole) : count_(whole.count() * 1000) {}  // NOLINT: it is exact

  constexpr int64_t count() const { return count_; }
  constexpr auto operator<=>(const Picos&) const = default;

 private:
  int64_t count_ = 0;
};

}  // namespace rubato
