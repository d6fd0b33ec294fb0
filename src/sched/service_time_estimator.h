// SPDX-License-Identifier: Apache-2.0
//
// ServiceTimeEstimator: the usual service time of requests by type and size bucket, and whether
// they were long, for `--classify learned`, for refusing long requests, and for policies that order
// by size.
//
// Each worker has one and learns from the requests that it finishes: no two write to one table.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "policy/job.h"

namespace rubato::sched {

class ServiceTimeEstimator {
 public:
  // Average service in the request's bucket; 0 = never seen.
  Nanos expected(uint32_t type, size_t payload_bytes) const {
    return Nanos(averages_[index(type, payload_bytes)]);
  }

  // Whether the last request in the bucket was long in the end, by whatever classification.
  bool was_long(uint32_t type, size_t payload_bytes) const {
    return long_[index(type, payload_bytes)];
  }

  void add(uint32_t type, size_t payload_bytes, Nanos service, JobClass job_class) {
    const size_t at = index(type, payload_bytes);
    long_[at] = job_class == JobClass::kLong;
    const int64_t old = averages_[at];
    const int64_t sample = std::max<int64_t>(service.count(), 1);
    averages_[at] = old == 0 ? sample : old + (sample - old) / kWeight;
  }

 private:
  static constexpr uint32_t kTypes = 256;  // types above share the last entry
  static constexpr size_t kBuckets = 16;   // by powers of two of the request's bytes
  static constexpr int64_t kWeight = 8;    // of the average, against 1 of a sample

  static size_t index(uint32_t type, size_t payload_bytes) {
    const size_t bucket = std::min<size_t>(std::bit_width(payload_bytes), kBuckets - 1);
    return std::min(type, kTypes - 1) * kBuckets + bucket;
  }

  std::array<int64_t, kTypes * kBuckets> averages_{};
  std::array<bool, kTypes * kBuckets> long_{};
};

}  // namespace rubato::sched
