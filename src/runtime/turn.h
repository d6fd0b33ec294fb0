// SPDX-License-Identifier: Apache-2.0
//
// Turn: lets one of several threads run a step that all of them may want run, without waiting. A
// thread that comes while the step runs leaves, and the running thread repeats the step, because it
// may already have passed the data that the other thread changed.
//
// Memory order. Every change is a read-modify-write of one word with acquire-release order: the
// thread that begins sees the changes of the one before; the thread that repeats sees those of the
// threads that came meanwhile.
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
  // Calls step() on this thread, or leaves it to the thread that is running it, which then repeats
  // it.
  template <class Step>
  void take(Step&& step) {
    if (!begin()) return;
    do {
      step();
    } while (!end());
  }

 private:
  enum State : uint32_t { kFree, kTaken, kAgain };

  // False: the thread that runs the step has been told to repeat it.
  bool begin() {
    for (uint32_t seen = word_.load(std::memory_order_relaxed);;) {
      const uint32_t next = seen == kFree ? kTaken : kAgain;
      if (word_.compare_exchange_strong(seen, next, std::memory_order_acq_rel,
                                        std::memory_order_relaxed)) {
        return next == kTaken;
      }
    }
  }

  // False: the step is to run once more.
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
