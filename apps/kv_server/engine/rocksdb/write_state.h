// SPDX-License-Identifier: Apache-2.0
//
// WriteState: whether the store takes writes at present, and if not, why. Each change is one line
// in the error log. Any thread.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "kv_server/engine/rocksdb/error_log.h"

namespace rubato::kv {

class WriteState {
 public:
  // Borrows the log.
  explicit WriteState(ErrorLog& log) : log_(log) {}

  // A write failed, or the next one will. The first reason is kept until writes are taken again.
  void refused(const std::string& why) {
    const std::lock_guard guard(mutex_);
    if (!reason_.empty()) return;
    reason_ = why;
    refusing_.store(true, std::memory_order_relaxed);
    log_.say("no writes are taken until this is over: " + why);
  }

  // A write succeeded, or the cause is known to be gone.
  void taken() {
    if (!refusing()) return;
    const std::lock_guard guard(mutex_);
    if (reason_.empty()) return;
    reason_.clear();
    refusing_.store(false, std::memory_order_relaxed);
    log_.say("writes are taken again");
  }

  bool refusing() const { return refusing_.load(std::memory_order_relaxed); }

  // One line; empty = writes are taken.
  std::string reason() const {
    const std::lock_guard guard(mutex_);
    return reason_;
  }

 private:
  ErrorLog& log_;
  std::atomic<bool> refusing_{false};  // as reason_ says
  mutable std::mutex mutex_;           // guards reason_
  std::string reason_;
};

}  // namespace rubato::kv
