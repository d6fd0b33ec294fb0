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

// Index of a manager, 0 .. managers-1: a context that looks after a group of workers.
struct ManagerId {
  uint32_t value = 0;
  constexpr auto operator<=>(const ManagerId&) const = default;
};

}  // namespace rubato
