// SPDX-License-Identifier: Apache-2.0
//
// GrowingRing<T>: a FIFO of values whose memory grows with the most it ever held, so a run of any
// length allocates only while it still grows. The first few are within itself, where the processor
// has them with its counters: of thousands of queues most hold no more. One owner.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "base/check.h"

namespace rubato::sim {

template <class T>
class GrowingRing {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  // All that ever were.
  uint64_t pushed() const { return pushed_; }

  void push(const T& value) {
    if (size_ > mask_) grow();
    slots()[(first_ + size_++) & mask_] = value;
    ++pushed_;
  }
  // These require that it is not empty.
  const T& front() const {
    RUBATO_DCHECK(!empty());
    return slots()[first_];
  }
  void pop() {
    RUBATO_DCHECK(!empty());
    first_ = (first_ + 1) & mask_;
    --size_;
  }
  // The one that was pushed last.
  T pop_last() {
    RUBATO_DCHECK(!empty());
    return slots()[(first_ + --size_) & mask_];
  }

 private:
  static constexpr uint32_t kNear = 4;

  T* slots() { return far_ != nullptr ? far_.get() : near_.data(); }
  const T* slots() const { return far_ != nullptr ? far_.get() : near_.data(); }

  [[gnu::noinline, gnu::cold]] void grow() {
    RUBATO_CHECK(mask_ <= std::numeric_limits<uint32_t>::max() / 2);
    const uint32_t mask = 2 * mask_ + 1;
    auto wider = std::make_unique<T[]>(size_t{mask} + 1);
    for (uint32_t i = 0; i < size_; ++i) wider[i] = slots()[(first_ + i) & mask_];
    first_ = 0;
    far_ = std::move(wider);
    mask_ = mask;
  }

  std::unique_ptr<T[]> far_;   // null: they are near
  uint32_t mask_ = kNear - 1;  // of the index of a slot
  uint32_t first_ = 0, size_ = 0;
  uint64_t pushed_ = 0;
  std::array<T, kNear> near_{};
};

}  // namespace rubato::sim
