// SPDX-License-Identifier: Apache-2.0
//
// PackedHistogram: a Histogram that is complete, in 8 bytes per bucket that holds something, for
// whoever keeps many. It answers as the histogram would. A plain value; one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "metrics/buckets.h"
#include "metrics/histogram.h"

namespace rubato {

class PackedHistogram {
 public:
  PackedHistogram() = default;

  // What `from` holds, which then is empty and keeps its memory.
  static PackedHistogram take(Histogram& from) {
    PackedHistogram packed;
    if (from.empty()) return packed;
    const size_t first = buckets::index_of(from.min_ns_), last = buckets::index_of(from.max_ns_);
    packed.entries_.reserve(std::min<uint64_t>(from.count_, last - first + 1));
    for (size_t i = first; i <= last; ++i) {
      if (const uint64_t count = std::exchange(from.counts_[i], 0); count != 0) {
        packed.entries_.push_back(entry(i, count));
      }
    }
    packed.totals_ = Totals{std::exchange(from.count_, 0), std::exchange(from.overflow_, 0),
                            std::exchange(from.sum_ns_, 0),
                            std::exchange(from.min_ns_, Totals().min_ns),
                            std::exchange(from.max_ns_, 0)};
    return packed;
  }

  uint64_t count() const { return totals_.count; }
  bool empty() const { return totals_.count == 0; }
  double sum_ns() const { return totals_.sum_ns; }

  // How many values do not exceed `value`, to the resolution of a bucket.
  uint64_t count_at_most(Nanos value) const {
    if (empty() || value.count() < 0) return 0;
    const size_t last = buckets::index_of(Histogram::clamped(value));
    uint64_t seen = 0;
    for (const uint64_t one : entries_) {
      if (bucket_of(one) > last) break;
      seen += count_of(one);
    }
    return seen;
  }

  void add_to(Histogram& sum) const {
    if (empty()) return;
    if (sum.counts_.empty()) sum.allocate();
    for (const uint64_t one : entries_) sum.counts_[bucket_of(one)] += count_of(one);
    sum.count_ += totals_.count;
    sum.overflow_ += totals_.overflow;
    sum.sum_ns_ += totals_.sum_ns;
    sum.min_ns_ = std::min(sum.min_ns_, totals_.min_ns);
    sum.max_ns_ = std::max(sum.max_ns_, totals_.max_ns);
  }

  void merge(const PackedHistogram& other) {
    std::vector<uint64_t> all;
    all.reserve(entries_.size() + other.entries_.size());
    auto mine = entries_.begin();
    for (const uint64_t one : other.entries_) {
      while (mine != entries_.end() && bucket_of(*mine) < bucket_of(one)) all.push_back(*mine++);
      const bool both = mine != entries_.end() && bucket_of(*mine) == bucket_of(one);
      all.push_back(both ? entry(bucket_of(one), count_of(*mine++) + count_of(one)) : one);
    }
    all.insert(all.end(), mine, entries_.end());
    entries_ = std::move(all);
    totals_.count += other.totals_.count;
    totals_.overflow += other.totals_.overflow;
    totals_.sum_ns += other.totals_.sum_ns;
    totals_.min_ns = std::min(totals_.min_ns, other.totals_.min_ns);
    totals_.max_ns = std::max(totals_.max_ns, other.totals_.max_ns);
  }

 private:
  struct Totals {
    uint64_t count = 0;
    uint64_t overflow = 0;
    double sum_ns = 0;
    uint64_t min_ns = std::numeric_limits<uint64_t>::max();
    uint64_t max_ns = 0;
  };

  // The bucket above, its count below.
  static constexpr int kCountBits = 52;
  static_assert(buckets::kCount <= uint64_t{1} << (64 - kCountBits));

  static uint64_t entry(uint64_t bucket, uint64_t count) {
    RUBATO_DCHECK(count < uint64_t{1} << kCountBits);
    return bucket << kCountBits | count;
  }
  static uint64_t bucket_of(uint64_t entry) { return entry >> kCountBits; }
  static uint64_t count_of(uint64_t entry) { return entry & ((uint64_t{1} << kCountBits) - 1); }

  Totals totals_;
  std::vector<uint64_t> entries_;  // by rising bucket
};

}  // namespace rubato
