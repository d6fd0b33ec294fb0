// SPDX-License-Identifier: Apache-2.0
//
// RingArrivals: since when frames have been in a receive ring, as far as the looks at its end tell,
// for no card or driver dates them. What a busy worker leaves in a ring waits there, and overload
// control is to see it. One owner.
#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"

namespace rubato::xdp {

// Frames are numbered as the kernel does, from 0 on and round at 2^32.
class RingArrivals {
 public:
  // A look at which the ring ended before the frame `end`. Times do not go back.
  void look(uint32_t end, Instant now) {
    if (size_ > 0 && last().end == end) return;
    // Beyond that many looks times are rather too late than too early.
    if (size_ < kLooks) ++size_;
    last() = {end, now};
  }

  // When a look saw the frame first; `now` if none has. Frames are asked for in their order.
  Instant seen_first(uint32_t frame, Instant now) {
    while (size_ > 0 && static_cast<int32_t>(frame - looks_[first_].end) >= 0) {
      first_ = (first_ + 1) % kLooks;
      --size_;
    }
    return size_ > 0 ? looks_[first_].at : now;
  }

 private:
  static constexpr uint32_t kLooks = 64;

  struct Look {
    uint32_t end = 0;
    Instant at;
  };
  Look& last() { return looks_[(first_ + size_ - 1) % kLooks]; }

  std::array<Look, kLooks> looks_{};
  uint32_t first_ = 0;
  uint32_t size_ = 0;
};

}  // namespace rubato::xdp
