// SPDX-License-Identifier: Apache-2.0
//
// PollLock: the right to poll a queue, for the life of the object. A try-lock: a thread that does
// not get it does nothing. The acquire pairs with the release of the holder before, whichever
// thread that was. Any thread.
#pragma once

#include <atomic>

namespace rubato {

class PollLock {
 public:
  explicit PollLock(std::atomic<bool>& flag) : flag_(flag) {
    held_ = !flag_.load(std::memory_order_relaxed) &&
            !flag_.exchange(true, std::memory_order_acquire);
  }
  ~PollLock() {
    if (held_) flag_.store(false, std::memory_order_release);
  }
  PollLock(const PollLock&) = delete;
  PollLock& operator=(const PollLock&) = delete;

  bool held() const { return held_; }

 private:
  std::atomic<bool>& flag_;
  bool held_;
};

}  // namespace rubato
