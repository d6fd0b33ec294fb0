// SPDX-License-Identifier: Apache-2.0
//
// BitRing: a set of small numbers that finds its next member in ring order. A bit for each number,
// and one for each word of those that is not zero: a search skips 4,096 numbers at a time. Which
// workers idle, which queues hold something. One owner.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace rubato::sim {

class BitRing {
 public:
  explicit BitRing(uint32_t size)
      : size_(size), words_((size + 63) / 64, 0), filled_((words_.size() + 63) / 64, 0) {}

  bool empty() const { return count_ == 0; }
  uint32_t count() const { return count_; }
  uint32_t size() const { return size_; }
  bool has(uint32_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }

  // The members from 64 * i on, 64 of them, as bits.
  uint64_t word(uint32_t i) const { return words_[i]; }

  // Requires that i is not a member.
  void add(uint32_t i) {
    words_[i / 64] |= uint64_t{1} << (i % 64);
    filled_[i / 4096] |= uint64_t{1} << (i / 64 % 64);
    ++count_;
  }
  // Requires that i is a member.
  void remove(uint32_t i) {
    uint64_t& word = words_[i / 64];
    word &= ~(uint64_t{1} << (i % 64));
    filled_[i / 4096] &= ~(uint64_t{word == 0} << (i / 64 % 64));
    --count_;
  }

  // How many steps after `from`, in ring order, the first of the next `count` numbers is that is a
  // member; `count` if none is. Requires from < size and count <= size.
  uint32_t find(uint32_t from, uint32_t count) const {
    if (count_ == 0) return count;
    const uint32_t before_wrap = std::min(count, size_ - from);
    const uint32_t found = find_straight(from, before_wrap);
    if (found < before_wrap || before_wrap == count) return found;
    return before_wrap + find_straight(0, count - before_wrap);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t find_straight(uint32_t from, uint32_t count) const {
    if (count == 0) return 0;
    uint32_t found = 0;
    if (const uint64_t rest = words_[from / 64] >> (from % 64); rest != 0) {
      found = from + static_cast<uint32_t>(std::countr_zero(rest));
    } else {
      const uint32_t word = next_filled(from / 64 + 1, (from + count + 63) / 64);
      if (word == kNone) return count;
      found = word * 64 + static_cast<uint32_t>(std::countr_zero(words_[word]));
    }
    return found < from + count ? found - from : count;
  }

  // The first word from `from` to `end` - 1 that is not zero; kNone if all are.
  uint32_t next_filled(uint32_t from, uint32_t end) const {
    for (uint32_t i = from; i < end; i = (i / 64 + 1) * 64) {
      const uint64_t rest = filled_[i / 64] >> (i % 64);
      if (rest != 0) return i + static_cast<uint32_t>(std::countr_zero(rest));
    }
    return kNone;
  }

  uint32_t size_;
  uint32_t count_ = 0;
  std::vector<uint64_t> words_;
  std::vector<uint64_t> filled_;  // the words that are not zero
};

}  // namespace rubato::sim
