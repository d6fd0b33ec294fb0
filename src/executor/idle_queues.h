// SPDX-License-Identifier: Apache-2.0
//
// IdleQueues: which workers have found nothing to run, so that a submitted task goes to one of
// them. A hint: it may lag. Any thread.
//
// Memory order: relaxed, since no other data is read on its word; where loops depend on it, there
// are fences (TaskDatapath::submit_to_loops). A worker writes only when it becomes idle, a
// submitter only when it takes the mark; a busy server only reads.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>

#include "base/limits.h"

namespace rubato {

class IdleQueues {
 public:
  void mark(uint32_t queue) {
    std::atomic<uint64_t>& word = words_[queue / kBits];
    const uint64_t bit = uint64_t{1} << (queue % kBits);
    if ((word.load(std::memory_order_relaxed) & bit) != 0) return;
    word.fetch_or(bit, std::memory_order_relaxed);
  }

  void unmark(uint32_t queue) {
    std::atomic<uint64_t>& word = words_[queue / kBits];
    const uint64_t bit = uint64_t{1} << (queue % kBits);
    if ((word.load(std::memory_order_relaxed) & bit) == 0) return;
    word.fetch_and(~bit, std::memory_order_relaxed);
  }

  // Takes the mark of one queue, the lowest, so that few workers are kept awake.
  std::optional<uint32_t> claim() {
    for (uint32_t i = 0; i < words_.size(); ++i) {
      uint64_t marked = words_[i].load(std::memory_order_relaxed);
      while (marked != 0) {
        const auto lowest = static_cast<uint32_t>(std::countr_zero(marked));
        const uint64_t bit = uint64_t{1} << lowest;
        const uint64_t before = words_[i].fetch_and(~bit, std::memory_order_relaxed);
        if ((before & bit) != 0) return i * kBits + lowest;
        marked = before & ~bit;
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr uint32_t kBits = 64;

  alignas(limits::kCacheLineBytes) std::array<std::atomic<uint64_t>, limits::kMaxWorkers / kBits>
      words_{};
};

}  // namespace rubato
