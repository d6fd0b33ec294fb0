// SPDX-License-Identifier: Apache-2.0
//
// Alarms: the next event of every actor of a simulation (workers, arrivals, timers), and which is
// first. An actor has at most one event ahead of it, so instead of a heap of events this is a
// tournament tree over actors: setting an alarm replays one path of it, log2(actors) branch-free
// steps, and finding the first is one load. Of equal times the lower actor is first. One owner.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/time.h"

namespace rubato::sim {

class Alarms {
 public:
  static constexpr uint32_t kActorBits = 10;
  static constexpr uint32_t kMaxActors = 1u << kActorBits;
  static constexpr int64_t kLatestNs = int64_t{1} << (63 - kActorBits);  // 104 days

  struct First {
    Instant at;  // Instant::never() if no alarm is set
    uint32_t actor;
  };

  // All alarms are off. Requires 1 <= actors <= kMaxActors.
  explicit Alarms(uint32_t actors)
      : leaves_(std::bit_ceil(std::max(actors, 2u))), tree_(size_t{2} * leaves_, kNever) {
    RUBATO_CHECK(actors >= 1 && actors <= kMaxActors);
  }

  // Requires 0 <= at < kLatestNs, or never.
  void set(uint32_t actor, Instant at) {
    RUBATO_DCHECK(at == Instant::never() || (at.ns() >= 0 && at.ns() < kLatestNs));
    const bool off = at == Instant::never();
    replay(actor, off ? kNever : (static_cast<uint64_t>(at.ns()) << kActorBits) | actor);
  }
  void clear(uint32_t actor) { replay(actor, kNever); }

  // When the actor's rings; never() if it is off.
  Instant of(uint32_t actor) const {
    const uint64_t key = tree_[leaves_ + actor];
    return key == kNever ? Instant::never() : Instant(static_cast<int64_t>(key >> kActorBits));
  }

  First first() const {
    const uint64_t key = tree_[1];
    if (key == kNever) return {Instant::never(), 0};
    return {Instant(static_cast<int64_t>(key >> kActorBits)),
            static_cast<uint32_t>(key & (kMaxActors - 1))};
  }

 private:
  static constexpr uint64_t kNever = UINT64_MAX;

  void replay(uint32_t actor, uint64_t key) {
    size_t node = leaves_ + actor;
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
