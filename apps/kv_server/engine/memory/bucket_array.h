// SPDX-License-Identifier: Apache-2.0
//
// BucketArray: the zeroed array of chains of one hash table, move-only. A large one comes straight
// from the kernel, so that neither taking it nor giving it back costs time per bucket at once. Not
// thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kv_server/engine/memory/entry.h"

namespace rubato::kv {

class BucketArray {
 public:
  BucketArray() = default;
  BucketArray(BucketArray&& other) noexcept
      : buckets_(std::exchange(other.buckets_, nullptr)), bits_(std::exchange(other.bits_, 0)) {}
  BucketArray& operator=(BucketArray&& other) noexcept {
    std::swap(buckets_, other.buckets_);
    std::swap(bits_, other.bits_);
    return *this;
  }
  ~BucketArray();

  // 2^bits empty chains; an empty array when the heap is exhausted.
  static BucketArray make(uint32_t bits);

  explicit operator bool() const { return buckets_ != nullptr; }
  uint32_t bits() const { return bits_; }
  uint64_t size() const { return uint64_t{1} << bits_; }
  size_t cost_bytes() const { return buckets_ == nullptr ? 0 : size() * sizeof(Entry*); }
  Entry*& operator[](uint64_t i) { return buckets_[i]; }
  Entry* operator[](uint64_t i) const { return buckets_[i]; }

 private:
  Entry** buckets_ = nullptr;
  uint32_t bits_ = 0;
};

}  // namespace rubato::kv
