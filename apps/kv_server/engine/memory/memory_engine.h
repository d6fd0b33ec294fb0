// SPDX-License-Identifier: Apache-2.0
//
// MemoryEngine: 64 shards, each a hash table and a heap of expiries under a spin lock, and one
// ordered index over all keys. Thread safety and failures: see Engine.
//
// Lock order: shards by number, then the index. No lock is held at a checkpoint. Time under a lock
// is bounded by a constant for everything but the size of the value that is written in place, the
// number of keys of update_many and set_many, and the log of the number of keys; large values are
// built before and read after the lock. Freeing happens behind the lock.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "kv_server/engine/engine.h"
#include "kv_server/engine/memory/expiry_heap.h"
#include "kv_server/engine/memory/ordered_index.h"
#include "kv_server/engine/memory/spin_lock.h"
#include "kv_server/engine/memory/table.h"
#include "kv_server/engine/memory/trash.h"

namespace rubato::kv {

class MemoryEngine final : public Engine {
 public:
  explicit MemoryEngine(const EngineOptions& options);
  ~MemoryEngine() override;

  Outcome get(std::string_view key, ValueSink sink) override;
  Outcome get_versioned(std::string_view key, VersionedSink sink) override;
  Outcome info(std::string_view key, Info& out) override;
  Outcome set(std::string_view key, std::string_view value, const SetOptions& options) override;
  Outcome erase(std::string_view key) override;
  Outcome update(std::string_view key, Updater updater) override;
  Outcome update_many(std::span<const std::string_view> keys, ManyUpdater updater) override;
  Outcome scan(uint64_t& cursor, size_t count, KeyVisitor visit) override;
  Outcome keys(const KeyRange& range, KeyVisitor visit) override;
  Outcome range(const KeyRange& range, uint64_t limit, ItemVisitor visit) override;
  Outcome count(const KeyRange& range, uint64_t& out) override;
  Outcome flush() override;
  Outcome random_key(ValueSink sink) override;
  uint64_t size() const override;
  uint64_t expire_some(uint32_t limit) override;
  EngineStats stats() const override;
  void set_maxmemory(uint64_t bytes) override;
  std::string_view name() const override { return "memory"; }

  // For tests, while no other thread uses the engine: aborts when a structure is damaged.
  void check() const;

 private:
  static constexpr uint32_t kShards = 1u << kShardBits;
  static constexpr size_t kPinBytes = size_t{16} << 10;  // larger values are read without the lock

  struct alignas(64) Shard {
    mutable SpinLock lock;
    Table table;
    ExpiryHeap heap;
    int64_t bytes = 0;       // of its entries, heap and table
    int64_t unreported = 0;  // the part of it that used_bytes_ does not know yet
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t expired = 0;
    uint64_t writes = 0;     // the version of the last one
    std::atomic<uint64_t> keys{0};  // written under the lock, read without
  };

  // One change on its way: prepare allocates, so that commit cannot fail.
  struct Step {
    Shard* shard = nullptr;
    std::string_view key;
    uint64_t hash = 0;
    Entry* entry = nullptr;  // the present entry of the key
    Change change;
    Entry* fresh = nullptr;
    Blob* blob = nullptr;
    int64_t growth_bytes = 0;
    bool may_move_blob = false;  // a value may be lengthened where it is, by commit
  };

  Step step_for(std::string_view key);
  Shard& shard_of(uint64_t hash) { return shards_[hash >> (64 - kShardBits)]; }
  bool is_past(int64_t expires_at_ms) const {
    return expires_at_ms != kNoExpiry && expires_at_ms <= clock_.now_ms();
  }
  bool pause() const { return checkpoint_ != nullptr && checkpoint_(); }

  template <class Sink>
  Outcome read(std::string_view key, Sink&& sink);
  static Current current_of(Entry* entry);

  // All below require the lock of the shard.
  static void stamp(Shard& shard, Entry* entry) {
    entry->version = ++shard.writes & ((uint64_t{1} << Entry::kVersionBits) - 1);
  }
  Entry* find_live(Shard& shard, uint64_t hash, std::string_view key, DeferredFree& deferred);
  void insert_entry(Shard& shard, Entry* entry, DeferredFree& deferred);
  void remove_entry(Shard& shard, Entry* entry, DeferredFree& deferred);
  void set_expiry(Shard& shard, Entry* entry, int64_t expires_at_ms);
  void set_blob(Shard& shard, Entry* entry, Blob* blob, DeferredFree& deferred);
  void account(Shard& shard, int64_t bytes);
  bool allows(const Shard& shard, int64_t growth_bytes) const;

  void settle(Step& step) const;  // resolves the change, given the time and the entry
  bool prepare(Step& step) const;
  bool prepare_put(Step& step) const;
  bool prepare_splice(Step& step) const;
  void abandon(Step& step) const;
  bool commit(Step& step, DeferredFree& deferred);
  void commit_put(Step& step, DeferredFree& deferred);
  bool commit_splice(Step& step, DeferredFree& deferred);
  Outcome run(Step& step, DeferredFree& deferred);
  Outcome run_all(std::span<Step> steps, DeferredFree& deferred);

  void lock_shards(uint64_t mask);
  void unlock_shards(uint64_t mask);
  bool show(Entry& entry, ItemVisitor visit, bool& stopped);
  uint64_t collect_at(uint64_t position, size_t& buckets, size_t max_keys,
                      std::vector<Pinned>& out);
  uint32_t expire_shard(Shard& shard, uint32_t limit);
  void free_chains(BucketArray& array);

  Clock& clock_;
  bool (*const checkpoint_)();
  const uint64_t seed_;
  std::atomic<int64_t> used_bytes_{0};
  std::atomic<uint64_t> max_bytes_;
  std::atomic<uint64_t> random_;
  std::atomic<uint32_t> expire_turn_{0};
  OrderedIndex index_;
  std::unique_ptr<Shard[]> shards_;
};

}  // namespace rubato::kv
