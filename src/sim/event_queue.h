// SPDX-License-Identifier: Apache-2.0
//
// EventQueue: the next event of every event source of a simulation (workers, arrivals, timers), and
// which one is first. A source has at most one event ahead of it, so instead of a heap of events
// this is a tournament tree over sources: to schedule an event replays one path of the tree,
// log2(sources) branch-free steps, and to find the first event is one load. Of events at the same
// time that of the lower source is first. One owner.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/time.h"

namespace rubato::sim {

struct Event {
  Instant at;  // Instant::never() = no source has an event
  uint32_t source;
};

class EventQueue {
 public:
  static constexpr uint32_t kSourceBits = 10;
  static constexpr uint32_t kMaxSources = 1u << kSourceBits;
  static constexpr int64_t kLatestNs = int64_t{1} << (63 - kSourceBits);  // 104 days

  // No source has an event. Requires 1 <= sources <= kMaxSources.
  explicit EventQueue(uint32_t sources)
      : leaves_(std::bit_ceil(std::max(sources, 2u))), tree_(size_t{2} * leaves_, kNever) {
    RUBATO_CHECK(sources >= 1 && sources <= kMaxSources);
  }

  // Replaces the source's event. Requires 0 <= at < kLatestNs, or never.
  void schedule(uint32_t source, Instant at) {
    RUBATO_DCHECK(at == Instant::never() || (at.ns() >= 0 && at.ns() < kLatestNs));
    const bool off = at == Instant::never();
    replay(source, off ? kNever : (static_cast<uint64_t>(at.ns()) << kSourceBits) | source);
  }
  void cancel(uint32_t source) { replay(source, kNever); }
  // The source's event, if it has one.
  void postpone(uint32_t source, Nanos by) {
    const Instant at = due(source);
    if (at != Instant::never()) schedule(source, at + by);
  }

  // When the source's event happens; never() = it has none.
  Instant due(uint32_t source) const { return time_of(tree_[leaves_ + source]); }

  Event first() const {
    const uint64_t key = tree_[1];
    if (key == kNever) return {Instant::never(), 0};
    return {Instant(static_cast<int64_t>(key >> kSourceBits)),
            static_cast<uint32_t>(key & (kMaxSources - 1))};
  }
  bool empty() const { return tree_[1] == kNever; }

 private:
  static constexpr uint64_t kNever = UINT64_MAX;

  static Instant time_of(uint64_t key) {
    return key == kNever ? Instant::never() : Instant(static_cast<int64_t>(key >> kSourceBits));
  }

  void replay(uint32_t source, uint64_t key) {
    size_t node = leaves_ + source;
    tree_[node] = key;
    while (node > 1) {
      key = std::min(key, tree_[node ^ 1]);
      node >>= 1;
      tree_[node] = key;
    }
  }

  size_t leaves_;
  std::vector<uint64_t> tree_;  // node 1 is the root, node i has the children 2i and 2i+1
};

}  // namespace rubato::sim
