// SPDX-License-Identifier: Apache-2.0
//
// Histogram: how long things took, as counts per log-linear bucket (buckets.h: within 0.8 %).
// SharedHistogram: the same with one writing thread and any number of reading ones.
//
// Values are Nanos; negative ones count as 0, and those of 73 minutes or more saturate into the
// last bucket and are counted in overflow(). Memory is bounded: nothing before the first record,
// 15 KiB after it. A Histogram is a plain value and belongs to one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/time.h"
#include "metrics/buckets.h"

namespace rubato {

class Histogram {
 public:
  void record(Nanos value) { record_many(value, 1); }

  [[gnu::always_inline]] void record_many(Nanos value, uint64_t times) {
    if (times == 0) return;
    if (counts_.empty()) [[unlikely]] allocate();
    const uint64_t ns = clamped(value);
    if (ns == buckets::kTop - 1) [[unlikely]] {
      overflow_ += value.count() >= static_cast<int64_t>(buckets::kTop) ? times : 0;
    }
    counts_[buckets::index_of(ns)] += times;
    count_ += times;
    sum_ns_ += static_cast<double>(ns) * static_cast<double>(times);
    min_ns_ = std::min(min_ns_, ns);
    max_ns_ = std::max(max_ns_, ns);
  }

  uint64_t count() const { return count_; }
  uint64_t overflow() const { return overflow_; }
  bool empty() const { return count_ == 0; }

  // All of these are 0 when empty. min, max, mean and sum are exact (short of saturation).
  Nanos min() const { return Nanos(empty() ? 0 : static_cast<int64_t>(min_ns_)); }
  Nanos max() const { return Nanos(static_cast<int64_t>(max_ns_)); }
  double sum_ns() const { return sum_ns_; }
  double mean_ns() const { return empty() ? 0 : sum_ns_ / static_cast<double>(count_); }
  Nanos mean() const { return Nanos(static_cast<int64_t>(mean_ns())); }

  // The smallest recorded value that at least `percent` % of the values do not exceed, e.g.
  // percentile(99.9); within 0.8 %. Requires 0 <= percent <= 100; percentile(100) is max().
  Nanos percentile(double percent) const {
    if (empty()) return Nanos(0);
    const double exact = std::ceil(percent / 100.0 * static_cast<double>(count_) - 1e-9);
    const uint64_t rank = exact < 1 ? 1 : std::min(static_cast<uint64_t>(exact), count_);
    if (rank == count_) return max();
    uint64_t seen = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= rank) return within_extremes(buckets::middle_of(i));
    }
    return max();
  }

  // How many values do not exceed `value`, to the resolution of a bucket.
  uint64_t count_at_most(Nanos value) const {
    if (empty() || value.count() < 0) return 0;
    const size_t last = buckets::index_of(clamped(value));
    uint64_t seen = 0;
    for (size_t i = 0; i <= last; ++i) seen += counts_[i];
    return seen;
  }

  // Calls f(low, high, count) for each bucket that holds something, in rising order; a bucket
  // holds low <= value < high.
  template <class F>
  void for_each_bucket(F&& f) const {
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] == 0) continue;
      f(Nanos(static_cast<int64_t>(buckets::low_of(i))),
        Nanos(static_cast<int64_t>(buckets::low_of(i + 1))), counts_[i]);
    }
  }

  void merge(const Histogram& other) {
    if (other.empty()) return;
    if (counts_.empty()) allocate();
    for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    overflow_ += other.overflow_;
    sum_ns_ += other.sum_ns_;
    min_ns_ = std::min(min_ns_, other.min_ns_);
    max_ns_ = std::max(max_ns_, other.max_ns_);
  }

  // What was recorded after `earlier`, a copy of this same histogram. The extremes of the
  // difference are known to a bucket only.
  Histogram since(const Histogram& earlier) const {
    Histogram delta;
    for (size_t i = 0; i < counts_.size(); ++i) {
      const uint64_t before = earlier.counts_.empty() ? 0 : earlier.counts_[i];
      if (counts_[i] <= before) continue;
      delta.record_many(Nanos(static_cast<int64_t>(buckets::middle_of(i))), counts_[i] - before);
    }
    delta.overflow_ = overflow_ - earlier.overflow_;
    delta.sum_ns_ = sum_ns_ - earlier.sum_ns_;
    if (!delta.empty() && max_ns_ > earlier.max_ns_) delta.max_ns_ = max_ns_;
    return delta;
  }

  void clear() { *this = Histogram(); }

  // What a histogram is made of, for those that were written down.
  struct Parts {
    double sum = 0;
    uint64_t min = 0, max = 0, overflow = 0;
    std::vector<std::pair<uint64_t, uint64_t>> counts;  // bucket and count, by rising bucket
  };
  // Nothing if the parts are of no histogram.
  static std::optional<Histogram> from(const Parts& parts) {
    Histogram histogram;
    if (parts.counts.empty()) return histogram;
    histogram.allocate();
    uint64_t next = 0;
    for (const auto& [bucket, count] : parts.counts) {
      if (bucket < next || bucket >= buckets::kCount || count == 0) return {};
      if (histogram.count_ > UINT64_MAX - count) return {};
      next = bucket + 1;
      histogram.counts_[bucket] = count;
      histogram.count_ += count;
    }
    const bool in_place = parts.min <= parts.max && parts.max < buckets::kTop &&
                          buckets::index_of(parts.min) == parts.counts.front().first &&
                          buckets::index_of(parts.max) == parts.counts.back().first;
    if (!in_place || !(parts.sum >= 0)) return {};
    histogram.sum_ns_ = parts.sum;
    histogram.min_ns_ = parts.min;
    histogram.max_ns_ = parts.max;
    histogram.overflow_ = parts.overflow;
    return histogram;
  }

 private:
  friend class SharedHistogram;
  friend class PackedHistogram;

  // Apart, so that recording saves no registers for it.
  [[gnu::noinline, gnu::cold]] void allocate() { counts_.resize(buckets::kCount); }

  static uint64_t clamped(Nanos value) {
    const int64_t top = static_cast<int64_t>(buckets::kTop) - 1;
    return static_cast<uint64_t>(std::clamp<int64_t>(value.count(), 0, top));
  }
  Nanos within_extremes(uint64_t ns) const {
    return Nanos(static_cast<int64_t>(std::clamp(ns, min_ns_, max_ns_)));
  }

  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
  uint64_t overflow_ = 0;
  double sum_ns_ = 0;
  uint64_t min_ns_ = std::numeric_limits<uint64_t>::max();
  uint64_t max_ns_ = 0;
};

// One thread records (plain load, add, store: no locked instruction), any thread takes snapshots.
// Memory order: the counts are relaxed, for a snapshot may miss the newest records but each count
// in it was true at some moment; the pointer to them is released by the first record and acquired
// by snapshot(), so that a reader sees them zeroed.
class SharedHistogram {
 public:
  SharedHistogram() = default;
  SharedHistogram(const SharedHistogram&) = delete;
  SharedHistogram& operator=(const SharedHistogram&) = delete;
  ~SharedHistogram() { delete cells_.load(std::memory_order_relaxed); }

  // The writing thread only. The first call allocates; prepare() moves that off the hot path.
  void record(Nanos value) {
    Cells* cells = cells_.load(std::memory_order_relaxed);
    if (cells == nullptr) [[unlikely]]
      cells = allocate();
    const uint64_t ns = Histogram::clamped(value);
    if (value.count() >= static_cast<int64_t>(buckets::kTop)) [[unlikely]]
      bump(cells->overflow);
    bump(cells->counts[buckets::index_of(ns)]);
    const double sum = cells->sum_ns.load(std::memory_order_relaxed);
    cells->sum_ns.store(sum + static_cast<double>(ns), std::memory_order_relaxed);
    if (ns < cells->min_ns.load(std::memory_order_relaxed)) [[unlikely]]
      cells->min_ns.store(ns, std::memory_order_relaxed);
    if (ns > cells->max_ns.load(std::memory_order_relaxed)) [[unlikely]]
      cells->max_ns.store(ns, std::memory_order_relaxed);
  }

  // The writing thread only: records what `other` holds.
  void add(const SharedHistogram& other) {
    const Cells* more = other.cells_.load(std::memory_order_acquire);
    if (more == nullptr) return;
    prepare();
    Cells& cells = *cells_.load(std::memory_order_relaxed);
    const auto add_to = [](auto& to, const auto& from) {
      to.store(to.load(std::memory_order_relaxed) + from.load(std::memory_order_relaxed),
               std::memory_order_relaxed);
    };
    for (size_t i = 0; i < buckets::kCount; ++i) add_to(cells.counts[i], more->counts[i]);
    add_to(cells.overflow, more->overflow);
    add_to(cells.sum_ns, more->sum_ns);
    const auto take = [](auto& to, uint64_t value) { to.store(value, std::memory_order_relaxed); };
    take(cells.min_ns, std::min(cells.min_ns.load(std::memory_order_relaxed),
                                more->min_ns.load(std::memory_order_relaxed)));
    take(cells.max_ns, std::max(cells.max_ns.load(std::memory_order_relaxed),
                                more->max_ns.load(std::memory_order_relaxed)));
  }

  // Any thread. min, max and mean may be a few records apart from the counts.
  Histogram snapshot() const {
    Histogram copy;
    const Cells* cells = cells_.load(std::memory_order_acquire);
    if (cells == nullptr) return copy;
    copy.counts_.resize(buckets::kCount);
    for (size_t i = 0; i < buckets::kCount; ++i) {
      copy.counts_[i] = cells->counts[i].load(std::memory_order_relaxed);
      copy.count_ += copy.counts_[i];
    }
    copy.overflow_ = cells->overflow.load(std::memory_order_relaxed);
    copy.sum_ns_ = cells->sum_ns.load(std::memory_order_relaxed);
    copy.min_ns_ = cells->min_ns.load(std::memory_order_relaxed);
    copy.max_ns_ =
        std::max(cells->max_ns.load(std::memory_order_relaxed), copy.empty() ? 0 : copy.min_ns_);
    return copy;
  }

  bool used() const { return cells_.load(std::memory_order_relaxed) != nullptr; }

  // The writing thread only, or before it starts: allocates the counts.
  void prepare() {
    if (!used()) allocate();
  }

 private:
  struct Cells {
    std::array<std::atomic<uint64_t>, buckets::kCount> counts{};
    std::atomic<uint64_t> overflow{0};
    std::atomic<double> sum_ns{0};
    std::atomic<uint64_t> min_ns{std::numeric_limits<uint64_t>::max()};
    std::atomic<uint64_t> max_ns{0};
  };

  static void bump(std::atomic<uint64_t>& cell) {
    cell.store(cell.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  Cells* allocate() {
    Cells* cells = new Cells();
    cells_.store(cells, std::memory_order_release);
    return cells;
  }

  std::atomic<Cells*> cells_{nullptr};
};

}  // namespace rubato
