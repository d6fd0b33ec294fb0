// SPDX-License-Identifier: Apache-2.0
//
// The bucket layout that Histogram and SharedHistogram share: log-linear, after Tene's
// HdrHistogram.
//
// Values are non-negative integers (nanoseconds, or thousandths of a slowdown). Below 2^34 (17 s)
// an octave has 64 buckets, so that a bucket's middle is within 2^-7 (0.8 %) of every value in it;
// from there to 2^42 (73 min) an octave has 8 and the error is 2^-4. That keeps a whole histogram
// below 16 KiB, which matters because there is one per worker and request type. Pure functions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace rubato::buckets {

inline constexpr int kFineBits = 6;      // 64 buckets in a fine octave
inline constexpr int kCoarseBits = 3;    // 8 buckets in a coarse octave
inline constexpr int kFineTopBits = 34;  // fine below 2^34
inline constexpr int kTopBits = 42;      // representable below 2^42
inline constexpr uint64_t kFineTop = uint64_t{1} << kFineTopBits;
inline constexpr uint64_t kTop = uint64_t{1} << kTopBits;
inline constexpr size_t kFineCount = size_t{kFineTopBits - kFineBits + 1} << kFineBits;
inline constexpr size_t kCoarseCount = size_t{kTopBits - kFineTopBits} << kCoarseBits;
inline constexpr size_t kCount = kFineCount + kCoarseCount;

static_assert(kCount * sizeof(uint64_t) <= 16 * 1024);

constexpr int bits_of(uint64_t value) { return static_cast<int>(std::bit_width(value)); }

// The bucket of `value`. Requires value < kTop.
constexpr size_t index_of(uint64_t value) {
  if (value < (uint64_t{2} << kFineBits)) return static_cast<size_t>(value);
  if (value < kFineTop) {
    const int shift = bits_of(value) - (kFineBits + 1);
    return (static_cast<size_t>(shift) << kFineBits) + static_cast<size_t>(value >> shift);
  }
  const int shift = bits_of(value) - (kCoarseBits + 1);
  const int octave = bits_of(value) - (kFineTopBits + 1);
  const size_t within = static_cast<size_t>(value >> shift) - (size_t{1} << kCoarseBits);
  return kFineCount + (static_cast<size_t>(octave) << kCoarseBits) + within;
}

// The smallest value of a bucket; of kCount, the first value that has no bucket.
constexpr uint64_t low_of(size_t index) {
  if (index < (size_t{2} << kFineBits)) return index;
  if (index < kFineCount) {
    const size_t shift = (index >> kFineBits) - 1;
    return static_cast<uint64_t>(index - (shift << kFineBits)) << shift;
  }
  const size_t coarse = index - kFineCount;
  const size_t shift = (coarse >> kCoarseBits) + static_cast<size_t>(kFineTopBits - kCoarseBits);
  const size_t within = coarse & ((size_t{1} << kCoarseBits) - 1);
  return static_cast<uint64_t>(within + (size_t{1} << kCoarseBits)) << shift;
}

constexpr uint64_t middle_of(size_t index) {
  const uint64_t low = low_of(index);
  return low + (low_of(index + 1) - low - 1) / 2;
}

}  // namespace rubato::buckets
