// SPDX-License-Identifier: Apache-2.0
//
// Making room by removing keys.
#include <algorithm>
#include <utility>
#include <vector>

#include "kv_server/engine/memory/memory_engine.h"

namespace rubato::kv {

namespace {

constexpr size_t kSample = 16;      // keys of which the one that was used least recently goes
constexpr size_t kBuckets = 32;     // looked at under one lock

}  // namespace

// Some keys that lie beside each other in the order of hashes, which says nothing of their use; of
// a small store all.
Pinned MemoryEngine::least_used() {
  const uint64_t start = random_position();
  std::vector<Pinned> sample;
  uint64_t position = start;
  for (bool wrapped = false; sample.size() < kSample && (!wrapped || position <= start);) {
    size_t buckets = kBuckets;
    position = collect_at(position, buckets, kSample, sample);
    if (position == 0 && std::exchange(wrapped, true)) break;
  }
  const auto oldest = std::max_element(
      sample.begin(), sample.end(), [this](const Pinned& one, const Pinned& other) {
        return idle_ms(*one) < idle_ms(*other);
      });
  return oldest != sample.end() ? std::move(*oldest) : Pinned();
}

Pinned MemoryEngine::soonest_to_expire() {
  Pinned soonest;
  for (uint32_t i = 0; i < kShards; ++i) {
    const ShardLocked guard(*this, shards_[i]);
    Entry* const top = shards_[i].heap.top();
    if (top == nullptr || (soonest && soonest->expiry() <= top->expiry())) continue;
    soonest = Pinned(top);
  }
  return soonest;
}

// True if the key is gone.
bool MemoryEngine::evict(Pinned& victim) {
  Shard& shard = shard_of(victim->hash);
  DeferredFree deferred;
  const ShardLocked guard(*this, shard);
  if (victim->dead) return true;
  remove_entry(shard, &*victim, deferred);
  evicted_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// Removes keys until there is room for so much more data. False = there is none to be had.
bool MemoryEngine::is_full() {
  const bool fits = account_.limit() == 0 || account_.data() < account_.room_for_data();
  return !fits && !make_room(1);
}

bool MemoryEngine::make_room(int64_t growth_bytes) {
  const Eviction eviction = eviction_.load(std::memory_order_relaxed);
  if (eviction == Eviction::kNone || growth_bytes <= 0) return false;
  const auto growth = static_cast<uint64_t>(growth_bytes) + index_.most_growth_bytes();
  while (account_.data() + growth > account_.room_for_data()) {
    if (growth > account_.room_for_data() || pause()) return false;
    Pinned victim = eviction == Eviction::kLru ? least_used() : soonest_to_expire();
    if (!victim) return false;
    evict(victim);
  }
  return true;
}

}  // namespace rubato::kv
