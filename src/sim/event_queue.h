// SPDX-License-Identifier: Apache-2.0
//
// EventQueue: the next event of every event source of a simulation (workers, arrivals, timers), and
// which one is first. A source has at most one event ahead of it, so instead of a heap of events
// this is a tournament tree over sources: to schedule an event replays one path of the tree,
// log2(sources) branch-free steps, and to find the first event is one load. One source may stand
// beside the tree: that of the arrivals, whose event changes with every request. Of events at the
// same time that of the lower source is first. One owner.
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
  static constexpr uint32_t kMaxSources = 1u << 13;
  static constexpr uint32_t kNone = UINT32_MAX;

  // Events are before this; time and source share 64 bits. It is 26 days for kMaxSources, and four
  // years for 128 sources. Requires 1 <= sources <= kMaxSources.
  static constexpr Instant latest(uint32_t sources) {
    return Instant((int64_t{1} << (64 - bits_for(sources))) - 1);
  }

  // No source has an event. `beside` is the source beside the tree, if there is one. Requires
  // 1 <= sources <= kMaxSources.
  explicit EventQueue(uint32_t sources, uint32_t beside = kNone)
      : bits_(bits_for(sources)),
        beside_(beside),
        leaves_(std::bit_ceil(std::max(sources, 2u))),
        tree_(size_t{2} * leaves_, kNever) {
    RUBATO_CHECK(sources >= 1 && sources <= kMaxSources);
  }

  // Replaces the source's event. Requires 0 <= at < latest(sources), or never.
  void schedule(uint32_t source, Instant at) {
    RUBATO_DCHECK(at == Instant::never() || (at.ns() >= 0 && at.ns() >> (64 - bits_) == 0));
    const bool off = at == Instant::never();
    set(source, off ? kNever : (static_cast<uint64_t>(at.ns()) << bits_) | source);
  }
  void cancel(uint32_t source) { set(source, kNever); }
  // The source's event, if it has one.
  void postpone(uint32_t source, Nanos by) {
    const Instant at = due(source);
    if (at != Instant::never()) schedule(source, at + by);
  }

  // When the source's event happens; never() = it has none.
  Instant due(uint32_t source) const {
    return time_of(source == beside_ ? beside_key_ : tree_[leaves_ + source]);
  }

  Event first() const {
    const uint64_t key = first_key();
    if (key == kNever) [[unlikely]] return {Instant::never(), 0};
    return {time_of(key), static_cast<uint32_t>(key & ((uint64_t{1} << bits_) - 1))};
  }
  bool empty() const { return first_key() == kNever; }

 private:
  static constexpr uint64_t kNever = UINT64_MAX;

  // Two at least, so that a time is an int64_t.
  static constexpr uint32_t bits_for(uint32_t sources) {
    return std::max(static_cast<uint32_t>(std::bit_width(sources - 1)), 2u);
  }

  uint64_t first_key() const { return std::min(tree_[1], beside_key_); }
  Instant time_of(uint64_t key) const {
    return key == kNever ? Instant::never() : Instant(static_cast<int64_t>(key >> bits_));
  }

  void set(uint32_t source, uint64_t key) {
    if (source == beside_) {
      beside_key_ = key;
      return;
    }
    size_t node = leaves_ + source;
    uint64_t* const tree = tree_.data();
    tree[node] = key;
    while (node > 1) {
      key = std::min(key, tree[node ^ 1]);
      node >>= 1;
      tree[node] = key;
    }
  }

  const uint32_t bits_;  // of the key, for the source
  const uint32_t beside_;
  uint64_t beside_key_ = kNever;
  size_t leaves_;
  std::vector<uint64_t> tree_;  // node 1 is the root, node i has the children 2i and 2i+1
};

}  // namespace rubato::sim
