// SPDX-License-Identifier: Apache-2.0
//
// SharedLine: a cache line that several cores write, and which of them has it. One owner.
#pragma once

#include <cstdint>
#include <utility>

#include "base/time.h"

namespace rubato::sim {

class SharedLine {
 public:
  // `core` writes it. Returns what that costs: `transfer` if another one did so last.
  Nanos move_to(uint32_t core, Nanos transfer) {
    const uint32_t last = std::exchange(last_, core);
    return last == core || last == kNobody ? Nanos() : transfer;
  }

 private:
  static constexpr uint32_t kNobody = UINT32_MAX - 1;  // no caller's (SimHost::kCentralCaller)

  uint32_t last_ = kNobody;
};

}  // namespace rubato::sim
