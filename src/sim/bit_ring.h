// SPDX-License-Identifier: Apache-2.0
//
// BitRing: a set of small numbers that finds its next member in ring order, 64 at a time. Which
// workers idle, which queues hold something. One owner.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace rubato::sim {

class BitRing {
 public:
  explicit BitRing(uint32_t size) : size_(size), words_((size + 63) / 64, 0) {}

  bool empty() const { return count_ == 0; }
  uint32_t count() const { return count_; }
  bool has(uint32_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }

  // Requires that i is not a member.
  void add(uint32_t i) {
    words_[i / 64] |= uint64_t{1} << (i % 64);
    ++count_;
  }
  // Requires that i is a member.
  void remove(uint32_t i) {
    words_[i / 64] &= ~(uint64_t{1} << (i % 64));
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
  uint32_t find_straight(uint32_t from, uint32_t count) const {
    const uint32_t end = from + count;
    for (uint32_t i = from; i < end; i = (i / 64 + 1) * 64) {
      const uint64_t rest = words_[i / 64] >> (i % 64);
      if (rest == 0) continue;
      const uint32_t found = i + static_cast<uint32_t>(std::countr_zero(rest));
      return found < end ? found - from : count;
    }
    return count;
  }

  uint32_t size_;
  uint32_t count_ = 0;
  std::vector<uint64_t> words_;
};

}  // namespace rubato::sim
