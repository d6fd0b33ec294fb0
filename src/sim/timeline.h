// SPDX-License-Identifier: Apache-2.0
//
// Timeline: the latencies of a run by the time when its requests were sent, in windows of equal
// length, for runs in which something changes. A plain value; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "metrics/histogram.h"

namespace rubato::sim {

class Timeline {
 public:
  // Histograms, of windows and types together, at most: 15 MiB. A run that would take more gets
  // windows of twice the length, as often as need be.
  static constexpr size_t kMostCells = 1024;

  // Requires window > 0 and types > 0.
  Timeline(Nanos window, size_t types);

  // A request of that type is done. Requires type < types.
  void note(Instant sent, uint32_t type, Nanos latency);
  // Adds another run's, which began with the same window and types.
  void merge(const Timeline& other);

  Nanos window() const { return window_; }
  Nanos begin_of(size_t window) const { return window_ * static_cast<int64_t>(window); }
  // Up to the last one in which a request was sent.
  size_t windows() const { return cells_.size() / types_; }
  const Histogram& of(size_t window, size_t type) const { return cells_[window * types_ + type]; }

 private:
  Histogram& cell(size_t window, size_t type);
  void double_window();

  Nanos window_;
  size_t types_;
  std::vector<Histogram> cells_;  // of each window one after the other, by type
};

}  // namespace rubato::sim
