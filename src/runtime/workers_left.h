// SPDX-License-Identifier: Apache-2.0
//
// WorkersLeft: tells a thread that looks after the workers when there are none left, also while it
// pauses. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/time.h"

namespace rubato {

class WorkersLeft {
 public:
  bool any() const { return any_.load(std::memory_order_acquire); }
  // At most for that long.
  void pause(Nanos time) {
    std::unique_lock lock(mutex_);
    ended_.wait_for(lock, std::chrono::nanoseconds(time.count()), [this] { return !any(); });
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    any_.store(false, std::memory_order_release);
    ended_.notify_all();
  }

 private:
  std::mutex mutex_;  // for the wait
  std::condition_variable ended_;
  std::atomic<bool> any_{true};  // released, so that who sees the end sees what came before
};

}  // namespace rubato
