// SPDX-License-Identifier: Apache-2.0
//
// Table: chained hash table of one shard whose buckets are in the order of the hashes, so that a
// hash is also a position that survives a resize; SCAN relies on that. It grows and shrinks in
// steps: while two arrays exist, every insert and remove moves up to kMoveChains chains (or passes
// kMoveBuckets buckets), and a hash lies in exactly one of the arrays: in the old one if its old
// bucket has not been moved yet.
//
// Protected by the lock of its shard. Owns the arrays; owns one reference of each entry, which
// remove hands to the caller. The top kShardBits of a hash chose the shard and are skipped.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "kv_server/engine/memory/bucket_array.h"
#include "kv_server/engine/memory/entry.h"

namespace rubato::kv {

inline constexpr uint32_t kShardBits = 6;

class Table {
 public:
  static constexpr uint32_t kMinBits = 2;
  static constexpr uint32_t kMaxBits = 40;      // keeps a SCAN cursor below 2^48
  static constexpr uint32_t kMoveChains = 4;    // per insert or remove while resizing
  static constexpr uint32_t kMoveBuckets = 32;  // the same, counting empty ones
  static constexpr uint32_t kShrinkFactor = 8;  // shrinks when this sparse

  Table();

  Entry* find(uint64_t hash, std::string_view key) const {
    for (Entry* entry = *chain(hash); entry != nullptr; entry = entry->next) {
      if (entry->hash == hash && entry->key() == key) return entry;
    }
    return nullptr;
  }

  // Both return an array that is no longer in use, perhaps; the caller frees it without the lock.
  // insert requires that the key is absent, remove that `entry` is in the table.
  BucketArray insert(Entry* entry);
  BucketArray remove(Entry* entry);

  // The first entry of the bucket that `position` lies in. Entries of the chain with a hash from
  // `position` up to `end` are all there are between the two.
  struct Bucket {
    Entry* first = nullptr;
    uint64_t end = 0;  // 0 = the last bucket of the last shard
  };
  Bucket bucket_at(uint64_t position) const;

  size_t size() const { return size_; }
  uint64_t buckets() const { return now_.size(); }
  bool resizing() const { return static_cast<bool>(old_); }
  size_t cost_bytes() const { return now_.cost_bytes() + old_.cost_bytes(); }
  // What cost_bytes grows by at most at the next so many inserts.
  size_t growth_bytes(size_t inserts) const;

  // Takes out everything at once; the table is empty then.
  std::pair<BucketArray, BucketArray> detach();

 private:
  static uint64_t index(uint64_t hash, uint32_t bits) {
    return (hash << kShardBits) >> (64 - bits);
  }
  bool in_old(uint64_t hash) const { return old_ && index(hash, old_.bits()) >= moved_; }
  Entry** chain(uint64_t hash) const {
    return in_old(hash) ? &old_[index(hash, old_.bits())] : &now_[index(hash, now_.bits())];
  }
  bool grows(size_t size) const {
    return !old_ && size > now_.size() && now_.bits() < kMaxBits;
  }
  BucketArray step();
  void resize(uint32_t bits);
  bool move_bucket();

  // Mutable for chain(), which insert and remove write through and find does not.
  mutable BucketArray now_;
  mutable BucketArray old_;
  uint64_t moved_ = 0;  // buckets of old_ that have been moved
  size_t size_ = 0;
};

}  // namespace rubato::kv
