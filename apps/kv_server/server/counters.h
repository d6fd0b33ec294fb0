// SPDX-License-Identifier: Apache-2.0
//
// The application's own counters: refused and failed calls per command, and error replies by their
// code. Only error paths write here. Any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"

namespace rubato::kv {

// Calls per command, by number. The host counts the requests that it ran; these are the differences
// between its requests and Redis' calls.
class CallCounters {
 public:
  explicit CallCounters(uint32_t commands) : counts_(commands) {}

  // Refused by an overloaded server, before it ran.
  void refuse_unstarted(uint32_t command) { add(counts_[command].refused_unstarted); }
  // Answered with an error without a look at the store: wrong arity, not allowed, no memory.
  void refuse(uint32_t command) { add(counts_[command].refused); }
  // Kept for EXEC.
  void queue(uint32_t command) { add(counts_[command].queued); }
  // Run by EXEC, or behind another command in one datagram.
  void run_queued(uint32_t command, Nanos service) {
    add(counts_[command].run_queued);
    counts_[command].queued_ns.fetch_add(service.count(), std::memory_order_relaxed);
  }
  // Run, and answered with an error.
  void fail(uint32_t command) { add(counts_[command].failed); }

  // Redis' calls, of a command that the host has run `requests` times.
  uint64_t calls(uint32_t command, uint64_t requests) const {
    const Counts& counts = counts_[command];
    const uint64_t not_run = load(counts.refused) + load(counts.queued);
    return requests - std::min(requests, not_run) + load(counts.run_queued);
  }
  uint64_t refused(uint32_t command) const {
    return load(counts_[command].refused_unstarted) + load(counts_[command].refused);
  }
  uint64_t failed(uint32_t command) const { return load(counts_[command].failed); }
  // What EXEC spent on it.
  Nanos queued_service(uint32_t command) const {
    return Nanos(counts_[command].queued_ns.load(std::memory_order_relaxed));
  }
  void reset() {
    for (Counts& counts : counts_) {
      for (auto* count : {&counts.refused_unstarted, &counts.refused, &counts.queued,
                          &counts.run_queued, &counts.failed}) {
        count->store(0, std::memory_order_relaxed);
      }
      counts.queued_ns.store(0, std::memory_order_relaxed);
    }
  }

 private:
  using Count = std::atomic<uint64_t>;  // relaxed: a number to show
  struct Counts {
    Count refused_unstarted{0};
    Count refused{0};
    Count queued{0};
    Count run_queued{0};
    Count failed{0};
    std::atomic<int64_t> queued_ns{0};
  };
  static void add(Count& count) { count.fetch_add(1, std::memory_order_relaxed); }
  static uint64_t load(const Count& count) { return count.load(std::memory_order_relaxed); }

  std::vector<Counts> counts_;
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
