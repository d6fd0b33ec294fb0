// SPDX-License-Identifier: Apache-2.0
//
// TracedDepth: the depth of a queue of all workers as a trace has it, whichever worker noted it
// last: what one worker saw is no longer so once another has seen a change. Any thread.
//
// Sync: see mechanism/queue/sync.h.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "mechanism/clock/clock.h"
#include "mechanism/queue/sync.h"

namespace rubato {

template <class Sync = StdSync>
class TracedDepth {
 public:
  struct Change {
    Instant at;
    uint32_t depth;
  };

  // Looks by `look()`, which returns the depth. A change is told to one of those who see it. Each
  // was seen after the one before was told; times of them are in order, as far as the clock is.
  template <class Look>
  std::optional<Change> changed(uint32_t trace, Look look) {
    // Acquire pairs with the release of the change before: this look, and its time, come after.
    uint64_t last = word_.load(std::memory_order_acquire);
    for (;;) {
      const uint32_t depth = look();
      const uint64_t known = last & ~kVersions;
      const uint64_t seen = uint64_t{trace & 0xffff} << kTraceAt | depth;
      if (known == seen) return std::nullopt;
      const Change change{now(), depth};
      const uint64_t next = seen | ((last + (1ULL << kVersionAt)) & kVersions);
      if (word_.compare_exchange_weak(last, next, std::memory_order_acq_rel)) {
        return change;
      }
    }
  }

 private:
  // The trace, a number that each change counts up, and the depth.
  static constexpr int kTraceAt = 48, kVersionAt = 32;
  static constexpr uint64_t kVersions = 0xffffULL << kVersionAt;

  typename Sync::template Atomic<uint64_t> word_{0};
};

}  // namespace rubato
