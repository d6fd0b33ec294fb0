// SPDX-License-Identifier: Apache-2.0
//
// Searches over whole numbers. Pure; safe on every thread.
#pragma once

#include <cstdint>
#include <optional>

namespace rubato::planning {

// The highest of 1..most at which `meets(k)` is true, if it is true up to some k and false beyond;
// 0 if it is nowhere. If it is not so regular: a k where it is true while it is false at k + 1.
// Calls `meets`, which returns an optional<bool>, about log2(most) times; nothing as soon as that
// returns nothing.
template <class F>
std::optional<uint32_t> binary_search(uint32_t most, F&& meets) {
  uint32_t met = 0, missed = most + 1;
  while (missed - met > 1) {
    const uint32_t middle = met + (missed - met) / 2;
    const std::optional<bool> answer = meets(middle);
    if (!answer) return std::nullopt;
    (*answer ? met : missed) = middle;
  }
  return met;
}

// The same answer where it is expected to be small against `most`: steps of 1, 2, 4, ... find a k
// that is beyond it, then bisection goes back. Calls `meets` about 2 log2(answer) times; it returns
// a bool.
template <class F>
uint32_t exponential_search(uint32_t most, F&& meets) {
  uint32_t met = 0, missed = most + 1;
  for (uint32_t step = 1; met < most; step *= 2) {
    const uint32_t next = step < most - met ? met + step : most;
    if (!meets(next)) {
      missed = next;
      break;
    }
    met = next;
  }
  const auto within = binary_search(missed - met - 1, [&](uint32_t k) -> std::optional<bool> {
    return meets(met + k);
  });
  return met + *within;
}

}  // namespace rubato::planning
