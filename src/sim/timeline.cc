// SPDX-License-Identifier: Apache-2.0
#include "sim/timeline.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rubato::sim {

Timeline::Timeline(Nanos window, size_t types) : window_(window), types_(types) {
  RUBATO_CHECK(window > Nanos() && types > 0);
}

void Timeline::note(Instant sent, uint32_t type, Nanos latency) {
  RUBATO_DCHECK(type < types_);
  const auto index = [&] {
    return static_cast<size_t>((sent - Instant()).count() / window_.count());
  };
  const size_t most = std::max<size_t>(kMostCells / types_, 1);
  while (index() >= most) double_window();
  cell(index(), type).record(latency);
}

void Timeline::merge(const Timeline& other) {
  RUBATO_CHECK(types_ == other.types_);
  if (window_ > other.window_) {
    Timeline longer = other;
    while (longer.window_ < window_) longer.double_window();
    return merge(longer);
  }
  while (window_ < other.window_) double_window();
  for (size_t window = 0; window < other.windows(); ++window) {
    for (size_t type = 0; type < types_; ++type) {
      cell(window, type).merge(other.of(window, type));
    }
  }
}

Histogram& Timeline::cell(size_t window, size_t type) {
  cells_.resize(std::max(cells_.size(), (window + 1) * types_));
  return cells_[window * types_ + type];
}

void Timeline::double_window() {
  const std::vector<Histogram> before = std::exchange(cells_, {});
  window_ = window_ * 2;
  for (size_t i = 0; i < before.size(); ++i) {
    cell(i / types_ / 2, i % types_).merge(before[i]);
  }
}

}  // namespace rubato::sim
