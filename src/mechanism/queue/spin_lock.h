// SPDX-License-Identifier: Apache-2.0
//
// SpinLock: for sections of a few instructions. Who holds it must not be switched away from: a
// request takes it in a non-preemptible region (mechanism/preempt/preempt_disable.h). Not fair. All
// zero bits are an open lock. Any thread.
//
// Memory order: lock() acquires what unlock() has released; the look before a new try is relaxed.
#pragma once

#include <atomic>
#include <cstdint>

#include "mechanism/queue/sync.h"

namespace rubato {

class SpinLock {
 public:
  void lock() {
    for (uint32_t tries = 0; taken_.exchange(1, std::memory_order_acquire) != 0;) {
      while (taken_.load(std::memory_order_relaxed) != 0) StdSync::wait(tries++);
    }
  }
  void unlock() { taken_.store(0, std::memory_order_release); }

 private:
  std::atomic<uint32_t> taken_{0};
};

}  // namespace rubato
