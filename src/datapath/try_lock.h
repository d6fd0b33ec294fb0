// SPDX-License-Identifier: Apache-2.0
//
// TryLock: guards what a thread can do without, so that nobody waits for it. The acquire of a
// try_lock() that succeeds pairs with the release in the unlock() before. Any thread.
#pragma once

#include <atomic>

namespace rubato {

class TryLock {
 public:
  bool try_lock() { return !busy_.exchange(true, std::memory_order_acquire); }
  void unlock() { busy_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> busy_{false};
};

}  // namespace rubato
