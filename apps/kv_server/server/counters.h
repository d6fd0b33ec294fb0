// SPDX-License-Identifier: Apache-2.0
//
// The application's own counters: refused and failed calls per command, and error replies by their
// code. Only error paths write here. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rubato::kv {

class CallCounters {
 public:
  explicit CallCounters(uint32_t commands) : refused_(commands), failed_(commands) {}

  // Not run: wrong arity, not allowed, refused by an overloaded server.
  void refuse(uint32_t command) { refused_[command].fetch_add(1, std::memory_order_relaxed); }
  // Run, and answered with an error.
  void fail(uint32_t command) { failed_[command].fetch_add(1, std::memory_order_relaxed); }

  uint64_t refused(uint32_t command) const {
    return refused_[command].load(std::memory_order_relaxed);
  }
  uint64_t failed(uint32_t command) const {
    return failed_[command].load(std::memory_order_relaxed);
  }
  void reset() {
    for (auto& count : refused_) count.store(0, std::memory_order_relaxed);
    for (auto& count : failed_) count.store(0, std::memory_order_relaxed);
  }

 private:
  std::vector<std::atomic<uint64_t>> refused_;
  std::vector<std::atomic<uint64_t>> failed_;
};

class ErrorCounters {
 public:
  static constexpr size_t kMaxCodes = 128;

  // The code of refusals, which are counted without a lock.
  explicit ErrorCounters(std::string refusal_code) : refusal_code_(std::move(refusal_code)) {}

  void count_refusal() { refusals_.fetch_add(1, std::memory_order_relaxed); }

  // Counts an error reply by the first word of its text.
  void count(std::string_view text) {
    const std::string_view code = text.substr(0, text.find(' '));
    const std::lock_guard lock(mutex_);
    ++total_;
    const auto found = counts_.find(code);
    if (found != counts_.end()) {
      ++found->second;
    } else if (counts_.size() < kMaxCodes) {
      counts_.emplace(code, 1);
    }
  }
  std::map<std::string, uint64_t, std::less<>> snapshot() const {
    const std::lock_guard lock(mutex_);
    auto counts = counts_;
    if (const uint64_t refusals = refusals_.load(std::memory_order_relaxed); refusals > 0) {
      counts[refusal_code_] += refusals;
    }
    return counts;
  }
  uint64_t total() const {
    const std::lock_guard lock(mutex_);
    return total_ + refusals_.load(std::memory_order_relaxed);
  }
  void reset() {
    const std::lock_guard lock(mutex_);
    counts_.clear();
    total_ = 0;
    refusals_.store(0, std::memory_order_relaxed);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t, std::less<>> counts_;
  uint64_t total_ = 0;
  const std::string refusal_code_;
  std::atomic<uint64_t> refusals_{0};
};

}  // namespace rubato::kv
