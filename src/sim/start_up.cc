// SPDX-License-Identifier: Apache-2.0
#include "sim/start_up.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace rubato::sim {
namespace {

// MSER: the number of parts whose removal leaves the mean most certain, at most half.
size_t least_uncertain(std::span<const LatencySum> cells) {
  double sum = 0, squares = 0, kept = 0, best = std::numeric_limits<double>::infinity();
  size_t at = 0;
  for (size_t i = cells.size(); i-- > 0;) {
    const LatencySum& cell = cells[i];
    if (cell.count > 0) {
      const double mean = cell.sum_ns / static_cast<double>(cell.count);
      sum += mean;
      squares += mean * mean;
      ++kept;
    }
    if (i > cells.size() / 2 || kept < 2) continue;
    const double uncertainty = std::max(squares - sum * sum / kept, 0.0) / (kept * kept);
    if (uncertainty <= best) {
      best = uncertainty;
      at = i;
    }
  }
  return at;
}

}  // namespace

size_t start_up(std::span<const Batch> batches, uint64_t least) {
  const size_t most = batches.size() / 2;
  size_t first = 0;
  while (first < most && batches[first].begin.arrived < least) ++first;
  std::vector<LatencySum> cells;
  for (const Batch& batch : batches) {
    cells.insert(cells.end(), batch.cells.begin(), batch.cells.end());
  }
  size_t unsettled = 0;
  for (size_t left = least_uncertain(cells); left > 0 && unsettled < most; ++unsettled) {
    left -= std::min(left, batches[unsettled].cells.size());
  }
  return std::max(first, unsettled);
}

}  // namespace rubato::sim
