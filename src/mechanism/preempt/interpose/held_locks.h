// SPDX-License-Identifier: Apache-2.0
//
// HeldLocks: the locks that one TLS block holds, so that each non-preemptible region is closed
// once, by the fiber that opened it, in any order. A lock that another thread has released is found
// in the list of foreign releases: each lock taken and each foreign release has a number from one
// count, and a lock is stale if it was released elsewhere after it was taken here.
//
// HeldLocks belongs to its TLS block. ForeignReleases may be used by any thread; it remembers the
// last 64, and its mutual exclusion is a flag: callers must not be switched away meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "mechanism/cpu/pause.h"

namespace rubato::interpose {

class ForeignReleases {
 public:
  static constexpr uint32_t kRemembered = 64;

  uint32_t latest() const { return latest_.load(std::memory_order_acquire); }

  void add(const void* lock) {
    acquire();
    const uint32_t number = latest_.load(std::memory_order_relaxed) + 1;
    releases_[number % kRemembered] = {lock, number};
    latest_.store(number, std::memory_order_release);
    busy_.clear(std::memory_order_release);
  }

  // True if `lock` was released elsewhere after release number `taken_at`.
  bool released_since(const void* lock, uint32_t taken_at) {
    acquire();
    bool found = false;
    for (const Release& release : releases_) {
      const bool later = static_cast<int32_t>(release.number - taken_at) > 0;
      found = found || (release.lock == lock && later);
    }
    busy_.clear(std::memory_order_release);
    return found;
  }

 private:
  struct Release {
    const void* lock = nullptr;
    uint32_t number = 0;
  };

  void acquire() {
    while (busy_.test_and_set(std::memory_order_acquire)) cpu_pause();
  }

  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::atomic<uint32_t> latest_{0};
  std::array<Release, kRemembered> releases_{};
};

class HeldLocks {
 public:
  static constexpr uint32_t kRemembered = 14;

  void add(const void* lock, uint32_t taken_at) {
    if (count_ == kRemembered) {
      ++beyond_;
      return;
    }
    locks_[count_++] = {lock, taken_at};
  }

  // The most recent one with this address. False: it is not held here.
  bool remove(const void* lock) {
    for (uint32_t i = count_; i-- > 0;) {
      if (locks_[i].lock != lock) continue;
      remove_at(i);
      return true;
    }
    if (beyond_ == 0) return false;
    --beyond_;  // more locks than fit: it is taken to be one of those
    return true;
  }

  uint32_t count() const { return count_ + beyond_; }

  bool holds(const void* lock) const {
    for (uint32_t i = 0; i < count_; ++i) {
      if (locks_[i].lock == lock) return true;
    }
    return false;
  }

  // Forgets the locks that were released elsewhere and returns their number.
  uint32_t reconcile(ForeignReleases& releases) {
    const uint32_t latest = releases.latest();
    if (latest == seen_) return 0;
    seen_ = latest;
    uint32_t stale = 0;
    for (uint32_t i = count_; i-- > 0;) {
      if (!releases.released_since(locks_[i].lock, locks_[i].taken_at)) continue;
      remove_at(i);
      ++stale;
    }
    return stale;
  }

 private:
  struct Held {
    const void* lock = nullptr;
    uint32_t taken_at = 0;
  };

  void remove_at(uint32_t i) {
    for (--count_; i < count_; ++i) locks_[i] = locks_[i + 1];
  }

  std::array<Held, kRemembered> locks_{};
  uint32_t count_ = 0;
  uint32_t beyond_ = 0;  // held as well, but not remembered which
  uint32_t seen_ = 0;    // foreign releases already looked at
};

}  // namespace rubato::interpose
