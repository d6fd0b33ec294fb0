// SPDX-License-Identifier: Apache-2.0
//
// Learned: the usual service time of requests by type and size bucket, and whether they were long,
// for `--classify learned` and for refusing long ones. Shared by all workers. Entries are relaxed
// and their update is a plain read-modify-write: two workers at once lose one of two samples of an
// average, which is harmless.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "base/time.h"
#include "runtime/worker_stats.h"

namespace rubato {

class Learned {
 public:
  // Average service in the request's bucket; 0 = never seen.
  Nanos expected(uint32_t type, size_t payload_bytes) const {
    return Nanos(cell(type, payload_bytes).load(std::memory_order_relaxed));
  }

  // Whether the last one in the request's bucket was long in the end, whoever said so.
  bool was_long(uint32_t type, size_t payload_bytes) const {
    return long_[index(type, payload_bytes)].load(std::memory_order_relaxed);
  }

  void add(uint32_t type, size_t payload_bytes, Nanos service, JobClass job_class) {
    std::atomic<bool>& is_long = long_[index(type, payload_bytes)];
    const bool now_so = job_class == JobClass::kLong;
    if (is_long.load(std::memory_order_relaxed) != now_so) {
      is_long.store(now_so, std::memory_order_relaxed);
    }
    std::atomic<int64_t>& average = cell(type, payload_bytes);
    const int64_t old = average.load(std::memory_order_relaxed);
    const int64_t sample = std::max<int64_t>(service.count(), 1);
    average.store(old == 0 ? sample : old + (sample - old) / 8, std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kBuckets = 16;  // by powers of two of the request's bytes

  static size_t index(uint32_t type, size_t payload_bytes) {
    const size_t bucket = std::min<size_t>(std::bit_width(payload_bytes), kBuckets - 1);
    return std::min(type, kRequestTypes - 1) * kBuckets + bucket;
  }
  std::atomic<int64_t>& cell(uint32_t t, size_t b) { return cells_[index(t, b)]; }
  const std::atomic<int64_t>& cell(uint32_t t, size_t b) const { return cells_[index(t, b)]; }

  std::array<std::atomic<int64_t>, kRequestTypes * kBuckets> cells_{};
  std::array<std::atomic<bool>, kRequestTypes * kBuckets> long_{};
};

}  // namespace rubato
