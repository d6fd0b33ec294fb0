// SPDX-License-Identifier: Apache-2.0
//
// The iterating methods: they pin a batch of entries under a lock and look at them without it.
#include <algorithm>
#include <array>

#include "kv_server/engine/memory/memory_engine.h"

namespace rubato::kv {

namespace {

constexpr size_t kBatch = 32;             // entries pinned under one lock
constexpr size_t kBucketsAtOnce = 64;     // buckets looked at under one lock
constexpr size_t kBucketsPerCount = 10;   // SCAN passes at most this many buckets per key asked for
constexpr uint32_t kCursorShift = 16;     // a bucket starts at a multiple of 2^16, see kMaxBits
constexpr uint32_t kExpireAtOnce = 16;    // keys removed under one lock

}  // namespace

// Pins the entries from `position` on, whole buckets of one shard, and returns the position behind
// them, 0 = the end. Looks at up to `buckets` buckets and subtracts their number from it; stops
// after the bucket with which `out` holds `max_keys`. An empty shard costs nothing.
uint64_t MemoryEngine::collect_at(uint64_t position, size_t& buckets, size_t max_keys,
                                  std::vector<Pinned>& out) {
  Shard& shard = shard_of(position);
  const uint64_t shard_end = ((position >> (64 - kShardBits)) + 1) << (64 - kShardBits);
  if (shard.keys.load(std::memory_order_relaxed) == 0) return shard_end;
  const ShardLocked guard(*this, shard);
  while (buckets > 0 && out.size() < max_keys) {
    --buckets;
    const Table::Bucket bucket = shard.table.bucket_at(position);
    for (Entry* entry = bucket.first; entry != nullptr; entry = entry->next) {
      // `end - 1`: the last end wraps to 0.
      if (entry->hash >= position && entry->hash <= bucket.end - 1) out.emplace_back(entry);
    }
    position = bucket.end;
    if (position == shard_end) break;
  }
  return position;
}

Outcome MemoryEngine::scan(uint64_t& cursor, size_t count, KeyVisitor visit) {
  // Any number is a position; one that is no start of a bucket only begins in the middle of one.
  uint64_t position = cursor << kCursorShift;
  size_t keys_left = std::clamp<size_t>(count, 1, SIZE_MAX / kBucketsPerCount);
  size_t buckets_left = keys_left * kBucketsPerCount;
  std::vector<Pinned> batch;
  batch.reserve(kBatch);
  do {
    batch.clear();
    const size_t allowed = std::min(buckets_left, kBucketsAtOnce);
    size_t unused = allowed;
    position = collect_at(position, unused, std::min(keys_left, kBatch), batch);
    buckets_left -= allowed - unused;
    keys_left -= std::min(keys_left, batch.size());
    cursor = position >> kCursorShift;
    if (pause()) return Outcome::kCancelled;
    for (Pinned& entry : batch) {
      if (!is_past(entry->expiry()) && !visit(entry->key())) return Outcome::kDone;
      if (pause()) return Outcome::kCancelled;
    }
  } while (position != 0 && keys_left > 0 && buckets_left > 0);
  return Outcome::kDone;
}

Outcome MemoryEngine::keys(const KeyRange& range, KeyVisitor visit) {
  std::vector<Pinned> batch;
  batch.reserve(kBatch);
  Pinned last;
  do {
    batch.clear();
    index_.collect(last ? last->key() : range.start, static_cast<bool>(last), range, kBatch,
                   batch);
    for (Pinned& entry : batch) {
      if (!is_past(entry->expiry()) && !visit(entry->key())) return Outcome::kDone;
      if (pause()) return Outcome::kCancelled;
    }
    if (batch.size() < kBatch) return Outcome::kDone;
    last = std::move(batch.back());
  } while (true);
}

// True when the item was shown.
bool MemoryEngine::show(Entry& entry, ItemVisitor visit, bool& stopped) {
  if (is_past(entry.expiry())) return false;
  Shard& shard = shard_of(entry.hash);
  Blob* pinned = nullptr;
  size_t size_bytes = 0;
  {
    const ShardLocked guard(*this, shard);
    if (entry.dead) return false;
    if (entry.value_bytes <= kPinBytes) {
      stopped = !visit(entry.key(), entry.value());
      return true;
    }
    pinned = entry.blob;
    pinned->refs.fetch_add(1, std::memory_order_relaxed);
    size_bytes = entry.value_bytes;
  }
  stopped = !visit(entry.key(), {pinned->bytes(), size_bytes});
  Blob::drop(pinned);
  return true;
}

Outcome MemoryEngine::range(const KeyRange& range, uint64_t limit, ItemVisitor visit) {
  std::vector<Pinned> batch;
  Pinned last;
  bool stopped = false;
  while (limit > 0) {
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(limit, kBatch));
    batch.clear();
    batch.reserve(wanted);
    index_.collect(last ? last->key() : range.start, static_cast<bool>(last), range, wanted,
                   batch);
    for (Pinned& entry : batch) {
      if (show(*entry, visit, stopped)) --limit;
      if (stopped) return Outcome::kDone;
      if (pause()) return Outcome::kCancelled;
    }
    if (batch.size() < wanted) return Outcome::kDone;
    last = std::move(batch.back());
  }
  return Outcome::kDone;
}

Outcome MemoryEngine::count(const KeyRange& range, uint64_t& out) {
  out = 0;
  return keys(range, [&](std::string_view) {
    ++out;
    return true;
  });
}

Outcome MemoryEngine::flush() {
  std::array<std::pair<BucketArray, BucketArray>, kShards> detached;
  constexpr uint64_t kAll = ~uint64_t{0};
  static_assert(kShards == 64, "the mask of the shards is one word");
  std::vector<ExpiryHeap> heaps(kShards);
  OrderedIndex::Node* tree = nullptr;
  {
    const ShardsLocked locked(*this, kAll);
    tree = index_.detach();
    if (tree == nullptr) return Outcome::kOutOfMemory;
    for (uint32_t i = 0; i < kShards; ++i) {
      Shard& shard = shards_[i];
      detached[i] = shard.table.detach();
      std::swap(heaps[i], shard.heap);
      charge(shard, static_cast<int64_t>(shard.table.cost_bytes()) - shard.bytes);
      shard.keys.store(0, std::memory_order_relaxed);
    }
  }
  OrderedIndex::destroy(tree, is_exclusive() ? nullptr : checkpoint_);
  for (auto& [now, old] : detached) {
    free_chains(now);
    free_chains(old);
  }
  return Outcome::kDone;
}

void MemoryEngine::free_chains(BucketArray& array) {
  if (!array) return;
  for (uint64_t i = 0; i < array.size(); ++i) {
    for (Entry* entry = array[i]; entry != nullptr;) {
      Entry::drop(std::exchange(entry, entry->next));
      pause();
    }
    pause();
  }
}

Outcome MemoryEngine::random_key(ValueSink sink) {
  std::vector<Pinned> found;
  const uint64_t start = random_position();
  uint64_t position = start;
  bool wrapped = false;
  while (!wrapped || position <= start) {
    size_t buckets = kBucketsAtOnce;
    position = collect_at(position, buckets, 1, found);
    const auto past = [&](const Pinned& entry) { return is_past(entry->expiry()); };
    found.erase(std::remove_if(found.begin(), found.end(), past), found.end());
    if (!found.empty()) {
      sink(found[static_cast<size_t>(start >> 32) % found.size()]->key());
      return Outcome::kDone;
    }
    if (position == 0 && std::exchange(wrapped, true)) break;
  }
  return Outcome::kNone;
}

uint32_t MemoryEngine::expire_shard(Shard& shard, uint32_t limit) {
  DeferredFree deferred;
  const int64_t now = clock_.now_ms();
  const ShardLocked guard(*this, shard);
  uint32_t removed = 0;
  while (removed < limit) {
    Entry* const entry = shard.heap.top();
    if (entry == nullptr || entry->expiry() > now) break;
    remove_entry(shard, entry, deferred);
    ++removed;
  }
  shard.expired += removed;
  shard.swept += removed;
  return removed;
}

uint64_t MemoryEngine::expire_some(uint32_t limit) {
  uint64_t removed = 0;
  const uint32_t turn = expire_turn_.fetch_add(1, std::memory_order_relaxed);
  for (uint32_t i = 0; i < kShards; ++i) {
    Shard& shard = shards_[(turn + i) % kShards];
    uint32_t batch = 0;
    do {
      if (removed == limit) return removed;
      batch = expire_shard(
          shard, static_cast<uint32_t>(std::min<uint64_t>(kExpireAtOnce, limit - removed)));
      removed += batch;
      for (uint32_t n = 0; n <= batch; ++n) pause();
    } while (batch == kExpireAtOnce);
  }
  return removed;
}

}  // namespace rubato::kv
