// SPDX-License-Identifier: Apache-2.0
//
// GrowingRing<T>: a FIFO of values whose memory grows with the most it ever held, so a run of any
// length allocates only while it still grows. One owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace rubato::sim {

template <class T>
class GrowingRing {
 public:
  bool empty() const { return pushed_ == popped_; }
  size_t size() const { return static_cast<size_t>(pushed_ - popped_); }

  void push(const T& value) {
    if (size() == ring_.size()) grow();
    ring_[pushed_++ & mask_] = value;
  }
  // These require that it is not empty.
  const T& front() const {
    RUBATO_DCHECK(!empty());
    return ring_[popped_ & mask_];
  }
  void pop() {
    RUBATO_DCHECK(!empty());
    ++popped_;
  }
  // The one that was pushed last. Requires that it is not empty.
  T pop_last() {
    RUBATO_DCHECK(!empty());
    return ring_[--pushed_ & mask_];
  }

  // How many were pushed and not popped as the last, and how many were popped as the first.
  uint64_t pushed() const { return pushed_; }
  uint64_t popped() const { return popped_; }

 private:
  static constexpr size_t kFirst = 4;

  [[gnu::noinline, gnu::cold]] void grow() {
    std::vector<T> wider(std::max(kFirst, 2 * ring_.size()));
    const uint64_t mask = wider.size() - 1;
    for (uint64_t i = popped_; i < pushed_; ++i) wider[i & mask] = ring_[i & mask_];
    ring_ = std::move(wider);
    mask_ = mask;
  }

  std::vector<T> ring_;  // a power of two, or none
  uint64_t mask_ = 0;
  uint64_t pushed_ = 0, popped_ = 0;
};

}  // namespace rubato::sim
