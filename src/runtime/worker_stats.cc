// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker_stats.h"

#include <algorithm>

namespace rubato {

WorkerStats::~WorkerStats() {
  for (auto& slot : types_) delete slot.load(std::memory_order_relaxed);
}

TypeStats& WorkerStats::make(uint32_t slot) {
  auto* stats = new TypeStats;
  types_[slot].store(stats, std::memory_order_release);
  return *stats;
}

RecentSlices::Blocker RecentSlices::worst_between(Instant from, Instant to) const {
  Blocker worst;
  for (const Slice& slice : slices_) {
    const Nanos held = std::min(slice.end, to) - std::max(slice.start, from);
    if (held > worst.held) worst = {slice.type, held};
  }
  return worst;
}

}  // namespace rubato
