// SPDX-License-Identifier: Apache-2.0
//
// Strong identifiers. Plain values, safe on every thread.
#pragma once

#include <compare>
#include <cstdint>

namespace rubato {

// Index of a worker, 0 .. workers-1.
struct WorkerId {
  uint32_t value = 0;
  constexpr auto operator<=>(const WorkerId&) const = default;
};

}  // namespace rubato
