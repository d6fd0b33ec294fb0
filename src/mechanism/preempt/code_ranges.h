// SPDX-License-Identifier: Apache-2.0
//
// CodeRanges: the stretches of the address space that hold code that must not be left half-way. One
// thread writes at a time (the caller ensures this); any thread may look up, even in a signal
// handler that has interrupted the writer. A lookup never waits and never frees: it reads under a
// sequence lock, and where other readers retry it gives up with the answer that is always right,
// "do not switch here".
//
// Ordering: the writer makes the version odd before it stores the words with release, and even with
// release after them; a reader loads the words with acquire, so one that saw a new word also sees
// the odd version (pairs with the word's release) and gives up, and one that saw the even version
// sees all words (pairs with its release).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "mechanism/queue/sync.h"

namespace rubato {

enum class CodeKind : uint8_t {
  kUnknown,  // in no range, or the ranges are just being changed
  kSafe,     // a fiber may be switched at any instruction
  kUnsafe,   // a fiber must not be switched here
};

struct CodeRange {
  uint64_t low = 0;
  uint64_t high = 0;  // the first address behind it, below 2^63
  CodeKind kind = CodeKind::kUnsafe;
};

template <uint32_t kCapacity, class Sync = StdSync>
class CodeRanges {
 public:
  // Replaces all ranges. They are sorted by address and do not overlap; those beyond kCapacity are
  // left out, which makes their code unknown. Returns how many are in force.
  uint32_t publish(std::span<const CodeRange> ranges) {
    const auto count = static_cast<uint32_t>(std::min<size_t>(ranges.size(), kCapacity));
    const uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    for (uint32_t i = 0; i < count; ++i) {
      low_[i].store(ranges[i].low, std::memory_order_release);
      const uint64_t mark = ranges[i].kind == CodeKind::kSafe ? kSafeMark : 0;
      high_[i].store(ranges[i].high | mark, std::memory_order_release);
    }
    count_.store(count, std::memory_order_release);
    version_.store(version + 2, std::memory_order_release);
    return count;
  }

  CodeKind find(uint64_t pc) const {
    const uint64_t before = version_.load(std::memory_order_acquire);
    if ((before & 1) != 0) return CodeKind::kUnknown;
    // The last range that begins at or below pc.
    uint64_t first = 0;
    uint64_t behind = count_.load(std::memory_order_acquire);
    while (first < behind) {
      const uint64_t middle = (first + behind) / 2;
      if (low_[middle].load(std::memory_order_acquire) <= pc) {
        first = middle + 1;
      } else {
        behind = middle;
      }
    }
    const uint64_t high = first > 0 ? high_[first - 1].load(std::memory_order_acquire) : 0;
    if (version_.load(std::memory_order_relaxed) != before) return CodeKind::kUnknown;
    if (pc >= (high & ~kSafeMark)) return CodeKind::kUnknown;
    return (high & kSafeMark) != 0 ? CodeKind::kSafe : CodeKind::kUnsafe;
  }

 private:
  static constexpr uint64_t kSafeMark = uint64_t{1} << 63;
  using Word = typename Sync::template Atomic<uint64_t>;

  Word version_{0};
  Word count_{0};
  std::array<Word, kCapacity> low_{};
  std::array<Word, kCapacity> high_{};
};

}  // namespace rubato
