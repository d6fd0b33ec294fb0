// SPDX-License-Identifier: Apache-2.0
//
// PlanCell: publishes a policy's Plan from one context to all workers. One writer at a time (the
// caller ensures this), any number of readers, wait-free for the writer. A plan that is the one
// before, to the byte, is no news, so that its readers need not copy it.
//
// A sequence lock without fences. Ordering: the writer stores the words with release after it has
// made the version odd, and the even version with release after the words; a reader loads the words
// with acquire, so a reader that saw a new word also sees the odd version (pairs with the word's
// release) and retries, and a reader that saw the even version sees all words (pairs with its
// release).
//
// Sync: see mechanism/queue/sync.h.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "mechanism/queue/sync.h"

namespace rubato {

template <class Plan, class Sync = StdSync>
class PlanCell {
  static_assert(std::is_trivially_copyable_v<Plan>);
  static constexpr size_t kWords = (sizeof(Plan) + 7) / 8;

 public:
  void publish(const Plan& plan) {
    std::array<uint64_t, kWords> raw{};
    std::memcpy(raw.data(), &plan, sizeof(Plan));
    const uint32_t version = version_.load(std::memory_order_relaxed);
    if (version > 0 && holds(raw)) return;
    version_.store(version + 1, std::memory_order_relaxed);
    for (size_t i = 0; i < kWords; ++i) words_[i].store(raw[i], std::memory_order_release);
    version_.store(version + 2, std::memory_order_release);
  }

  // Copies the plan into `plan` if it is newer than `seen`. False = unchanged, or being written.
  bool refresh(Plan& plan, uint32_t& seen) const {
    const uint32_t before = version_.load(std::memory_order_acquire);
    if (before == seen || (before & 1) != 0) return false;
    std::array<uint64_t, kWords> raw;
    for (size_t i = 0; i < kWords; ++i) raw[i] = words_[i].load(std::memory_order_acquire);
    if (version_.load(std::memory_order_relaxed) != before) return false;
    std::memcpy(static_cast<void*>(&plan), raw.data(), sizeof(Plan));
    seen = before;
    return true;
  }

 private:
  // By the writer.
  bool holds(const std::array<uint64_t, kWords>& raw) const {
    for (size_t i = 0; i < kWords; ++i) {
      if (words_[i].load(std::memory_order_relaxed) != raw[i]) return false;
    }
    return true;
  }

  typename Sync::template Atomic<uint32_t> version_{0};
  std::array<typename Sync::template Atomic<uint64_t>, kWords> words_{};
};

}  // namespace rubato
