// SPDX-License-Identifier: Apache-2.0
//
// WaitWord: who ends one wait, and who puts the waiting request back. The wait may be ended at any
// time from its announcement on: before its fiber has been left, while, and afterwards; by any
// number of threads, of which the first counts.
//
//   kNone --settle--> kParked        the fiber has been left, and no worker holds the request
//   kNone --claim(why)--> why        the request is still on its worker, which goes on with it
//   kParked --claim(why)--> why      the claimant puts the request back: deliver
//
// Memory order. settle() releases what the worker has written of the fiber and the request, and
// claim() acquires it from kParked; claim() releases what the claimant did before, and settle(),
// when it fails, and why() acquire that. A request that was parked is handed over by the list that
// it is put back by.
//
// Sync: see mechanism/queue/sync.h.
#pragma once

#include <cstdint>

#include "mechanism/queue/sync.h"

namespace rubato {

// Why a wait has ended.
enum class Wake : uint32_t {
  kNone,       // it has not
  kWoken,      // what it was for has come
  kTimeout,    // its deadline has
  kCancelled,  // the request is to end
  kClosed,     // what it was for does not come any more
  kRefused,    // the request cannot wait: every fiber is in use, or descriptors
};

enum class Claim : uint8_t {
  kLost,     // another one was first
  kSeen,     // the request is on its worker, or its thread, which looks
  kDeliver,  // the claimant puts it back
};

template <class Sync = StdSync>
class WaitWord {
 public:
  // Any thread, as long as the wait is announced somewhere.
  Claim claim(Wake why) {
    uint32_t seen = number(Wake::kNone);
    while (!word_.compare_exchange_strong(seen, number(why), std::memory_order_acq_rel,
                                          std::memory_order_relaxed)) {
      if (seen != kParked && seen != number(Wake::kNone)) return Claim::kLost;
    }
    return seen == kParked ? Claim::kDeliver : Claim::kSeen;
  }

  // The worker that has left the fiber. False: the wait is over, and the worker puts the request
  // back itself. True: nothing of the request may be touched any more.
  bool settle() {
    uint32_t seen = number(Wake::kNone);
    return word_.compare_exchange_strong(seen, kParked, std::memory_order_acq_rel,
                                         std::memory_order_acquire);
  }

  // The request, while it is not parked.
  Wake why() const { return static_cast<Wake>(word_.load(std::memory_order_acquire)); }

 private:
  static constexpr uint32_t kParked = 0x100;
  static constexpr uint32_t number(Wake why) { return static_cast<uint32_t>(why); }

  typename Sync::template Atomic<uint32_t> word_{};
};

}  // namespace rubato
