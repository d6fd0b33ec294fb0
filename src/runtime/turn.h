// SPDX-License-Identifier: Apache-2.0
//
// Turn: one of several threads does a step that all of them may come by to do, and none waits. A
// thread that comes while it is being done leaves, and the one that does it does it once more, as
// it may already have looked at what the other came for.
//
// Memory order. Every change is a read-modify-write of one word with acquire-release order: the
// thread that begins sees what the one before left; the thread that repeats sees what those did
// that came meanwhile.
//
// Sync: see mechanism/queue/sync.h.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "mechanism/queue/sync.h"

namespace rubato {

template <class Sync = StdSync>
class Turn {
 public:
  // Calls step() here and now, or leaves it to the thread that is at it, which then repeats it.
  template <class Step>
  void take(Step&& step) {
    if (!begin()) return;
    do {
      step();
    } while (!end());
  }

 private:
  enum State : uint32_t { kFree, kTaken, kAgain };

  // False: the thread that is at it has been told to do it again.
  bool begin() {
    for (uint32_t seen = word_.load(std::memory_order_relaxed);;) {
      const uint32_t next = seen == kFree ? kTaken : kAgain;
      if (word_.compare_exchange_strong(seen, next, std::memory_order_acq_rel,
                                        std::memory_order_relaxed)) {
        return next == kTaken;
      }
    }
  }

  // False: once more.
  bool end() {
    for (uint32_t seen = kTaken;;) {
      RUBATO_DCHECK(seen != kFree);
      const uint32_t next = seen == kTaken ? kFree : kTaken;
      if (word_.compare_exchange_strong(seen, next, std::memory_order_acq_rel,
                                        std::memory_order_relaxed)) {
        return next == kFree;
      }
    }
  }

  typename Sync::template Atomic<uint32_t> word_{};
};

}  // namespace rubato
