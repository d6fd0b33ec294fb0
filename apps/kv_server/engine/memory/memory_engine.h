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

#include <array>
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
  Outcome exclusively(FunctionRef<void()> body) override;
  Outcome get_many(std::span<const std::string_view> keys, ManySink sink) override;
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
  bool is_full() override;
  void set_eviction(Eviction eviction) override {
    eviction_.store(eviction, std::memory_order_relaxed);
  }
  std::string_view name() const override { return "memory"; }
  bool keeps_use() const override { return true; }

  // For tests, while no other thread uses the engine: aborts when a structure is damaged.
  void check() const;

 private:
  // The engine that the thread has to itself.
  static thread_local const MemoryEngine* t_exclusive_;

  static constexpr uint32_t kShards = 1u << kShardBits;
  static constexpr uint32_t kCreationCounts = 64;
  static constexpr int64_t kHeapItemBytes = 16;
  static constexpr size_t kPinBytes = size_t{16} << 10;  // larger values are read without the lock

  struct alignas(64) Shard {
    mutable SpinLock lock;
    Table table;
    ExpiryHeap heap;
    int64_t bytes = 0;       // of its entries, heap and table
    int64_t unreported = 0;  // the part of it that the account does not know yet
    int64_t allowed = 0;     // known to the account, and to come with the change at work
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t expired = 0;
    uint64_t swept = 0;      // of these: see EngineStats
    uint64_t writes = 0;     // the version of the last one
    std::array<uint32_t, kCreationCounts> creations{};  // of keys, by their hash
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
    size_t new_before = 0;  // keys that the same change adds to its shard before its own
    bool refused = false;  // the limit does not allow its growth
    bool inserted = false;  // its key is a new one, and is in the table
    bool may_move_blob = false;  // a value may be lengthened where it is, by commit
  };

  // What steps have prepared and not used is freed when it ends.
  class Abandoned {
   public:
    Abandoned(const MemoryEngine& engine, std::span<Step> steps) : engine_(engine), steps_(steps) {}
    ~Abandoned() {
      for (Step& step : steps_) engine_.abandon(step);
    }
    Abandoned(const Abandoned&) = delete;
    Abandoned& operator=(const Abandoned&) = delete;

   private:
    const MemoryEngine& engine_;
    const std::span<Step> steps_;
  };

  // The keys of one update_many; the three have the same order.
  struct Batch {
    std::span<Step> steps;
    std::span<Current> currents;
    std::span<Change> changes;
  };

  // Locks a shard, unless the thread has all of them by exclusively().
  class ShardLocked {
   public:
    ShardLocked(const MemoryEngine& engine, const Shard& shard)
        : lock_(engine.is_exclusive() ? nullptr : &shard.lock) {
      if (lock_ != nullptr) lock_->lock();
    }
    ~ShardLocked() {
      if (lock_ != nullptr) lock_->unlock();
    }
    ShardLocked(const ShardLocked&) = delete;
    ShardLocked& operator=(const ShardLocked&) = delete;

   private:
    SpinLock* const lock_;
  };

  // The shards of a mask stay locked, in their order, until it ends.
  class ShardsLocked {
   public:
    ShardsLocked(MemoryEngine& engine, uint64_t mask)
        : engine_(engine), mask_(engine.is_exclusive() ? 0 : mask) {
      engine_.lock_shards(mask_);
    }
    ~ShardsLocked() { engine_.unlock_shards(mask_); }
    ShardsLocked(const ShardsLocked&) = delete;
    ShardsLocked& operator=(const ShardsLocked&) = delete;

   private:
    MemoryEngine& engine_;
    const uint64_t mask_;
  };

  // What a change adds at most is in the account before it is done, so that writers that are at
  // work at the same time do not pass the limit together; what it does add is not counted twice.
  // Given back if the change is refused. Under the locks of the shards.
  class Allowance {
   public:
    Allowance(MemoryEngine& engine, std::span<const Step> steps);
    ~Allowance();
    Allowance(const Allowance&) = delete;
    Allowance& operator=(const Allowance&) = delete;

    bool granted() const { return granted_; }
    // As granted(), now that a part of the change is done. The index may have made more nodes.
    bool holds() const;

   private:
    MemoryEngine& engine_;
    const std::span<const Step> steps_;
    int64_t index_bytes_ = 0;
    bool granted_ = true;
  };

  Step step_for(std::string_view key);
  Shard& shard_of(uint64_t hash) { return shards_[hash >> (64 - kShardBits)]; }
  bool is_past(int64_t expires_at_ms) const {
    return expires_at_ms != kNoExpiry && expires_at_ms <= clock_.now_ms();
  }
  bool pause() const { return checkpoint_ != nullptr && !is_exclusive() && checkpoint_(); }
  bool is_exclusive() const { return t_exclusive_ == this; }

  template <class Sink>
  Outcome read(std::string_view key, Sink&& sink);
  Current current_of(const Step& step) const;

  // All below require the lock of the shard.
  static void stamp(Shard& shard, Entry* entry) {
    entry->version = ++shard.writes & ((uint64_t{1} << Entry::kVersionBits) - 1);
    entry->set_read(false);
  }
  // The first is a use of the entry, which may hand its value out.
  Entry* find_live(Shard& shard, uint64_t hash, std::string_view key, DeferredFree& deferred,
                   bool reads = false);
  Entry* find_unexpired(Shard& shard, uint64_t hash, std::string_view key, DeferredFree& deferred);
  bool insert_entry(Shard& shard, Entry* entry, DeferredFree& deferred);
  void remove_entry(Shard& shard, Entry* entry, DeferredFree& deferred);
  void set_expiry(Shard& shard, Entry* entry, int64_t expires_at_ms);
  void set_blob(Shard& shard, Entry* entry, Blob* blob, DeferredFree& deferred);
  void charge(Shard& shard, int64_t bytes);
  void report(Shard& shard, int64_t bytes);
  uint32_t idle_ms(const Entry& entry) const {
    return use_clock() - (entry.used.load(std::memory_order_relaxed) & ~Entry::kRead);
  }
  uint32_t use_clock() const { return static_cast<uint32_t>(clock_.coarse_ms()) & ~Entry::kRead; }
  void touch(Entry* entry, bool reads = false) const {
    const uint32_t before = entry->used.load(std::memory_order_relaxed);
    const uint32_t after = use_clock() | (reads ? Entry::kRead : before & Entry::kRead);
    if (after != before) entry->used.store(after, std::memory_order_relaxed);
  }

  void settle(Step& step) const;  // resolves the change, given the time and the entry
  static int64_t growth_of_heap(const Step& step);
  static int64_t growth_by(const Step& step);
  static int64_t growth_of(std::span<const Step> steps);
  bool prepare(Step& step) const;
  bool prepare_put(Step& step) const;
  bool prepare_splice(Step& step) const;
  void abandon(Step& step) const;
  bool commit(Step& step, DeferredFree& deferred);
  bool commit_put(Step& step, DeferredFree& deferred);
  bool commit_splice(Step& step, DeferredFree& deferred);
  Outcome run(Step& step, DeferredFree& deferred);
  Outcome set_locked(Step& step, std::string_view value, const SetOptions& options,
                     DeferredFree& deferred);
  Outcome update_many_once(std::span<const std::string_view> keys, ManyUpdater updater,
                           const Batch& batch);
  bool insert_all(std::span<Step> steps, const Allowance& allowance, DeferredFree& deferred);
  Outcome run_all(std::span<Step> steps, DeferredFree& deferred);

  // Without a lock.
  template <class F>
  Outcome with_room(F&& attempt);
  bool make_room(int64_t growth_bytes);
  Pinned least_used();
  Pinned soonest_to_expire();
  bool evict(Pinned& victim);

  void lock_shards(uint64_t mask);
  void unlock_shards(uint64_t mask);
  bool show(Entry& entry, ItemVisitor visit, bool& stopped);
  uint64_t random_position() {
    const uint64_t random = random_.fetch_add(0x9e3779b97f4a7c15u, std::memory_order_relaxed);
    return (random ^ (random >> 29)) * 0xbf58476d1ce4e5b9u;
  }
  uint64_t collect_at(uint64_t position, size_t& buckets, size_t max_keys,
                      std::vector<Pinned>& out);
  uint32_t expire_shard(Shard& shard, uint32_t limit);
  void free_chains(BucketArray& array);

  Clock& clock_;
  bool (*const checkpoint_)();
  const uint64_t seed_;
  MemoryAccount own_account_{0};
  MemoryAccount& account_;
  std::atomic<Eviction> eviction_;
  std::atomic<uint64_t> evicted_{0};
  std::atomic<uint64_t> random_;
  std::atomic<uint32_t> expire_turn_{0};
  OrderedIndex index_{&account_};
  std::unique_ptr<Shard[]> shards_;
};

}  // namespace rubato::kv
