// SPDX-License-Identifier: Apache-2.0
//
// RocksEngine: keys and values on disk. Thread safety and failures: see Engine. Owns the database
// and threads: after a crash one that counts its keys, after a failed write one that resumes.
//
// Four column families:
//   default  key -> expiry, version of the write (8 bytes each, little endian), value
//   order    hash (8 bytes, big endian), key -> ""     the order of SCAN, whose cursor is a hash
//   expiry   expiry (8 bytes, big endian), key -> ""   the keys that expire, soonest first
//   meta     format, hash seed, and the number of keys if the last run ended cleanly
// Each change is one write batch over all of them, so they agree after every crash. An expired key
// is removed by the expiry cycle, not by a compaction filter: a filter sees single versions of a
// key, cannot tell whether a newer one exists, and so could not keep the number of keys exact.
//
// Writers read before they write (the old expiry and whether the key is new) under a striped lock,
// which they hold until the batch is written. Readers take none. No checkpoint is reached inside
// RocksDB or under a lock; an iterator may live across checkpoints and change threads.
//
// DBSIZE is exact: counted with each batch, stored at a clean close, and after a crash recounted in
// the background from the snapshot at open; until then it is an estimate and stats() says so.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kv_server/engine/engine.h"
#include "kv_server/engine/rocksdb/backup.h"
#include "kv_server/engine/rocksdb/error_log.h"
#include "kv_server/engine/rocksdb/log_guard.h"
#include "kv_server/engine/rocksdb/write_state.h"

namespace rocksdb {
class Cache;
class ColumnFamilyHandle;
class DB;
class Env;
class FileSystem;
class Iterator;
class PinnableSlice;
class Snapshot;
class Status;
class WriteBatch;
class WriteBatchBase;
struct ColumnFamilyDescriptor;
struct DBOptions;
struct ReadOptions;
enum class WALRecoveryMode : char;
}  // namespace rocksdb

namespace rubato::kv {

// What the engine stands on.
struct StoreMedium {
  std::shared_ptr<rocksdb::FileSystem> files;  // null = that of the system
  size_t write_buffer_bytes = size_t{32} << 20;  // of a family, before it becomes a table
};

class RocksEngine final : public Engine {
 public:
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options,
                                              const StoreMedium& medium = {});
  ~RocksEngine() override;

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
  // Bounds memtables and cache together with the buffers of connections. The data are on disk, so
  // nothing is refused or evicted for their sake.
  void set_maxmemory(uint64_t bytes) override;
  void set_eviction(Eviction) override {}
  std::string_view name() const override { return "rocksdb"; }
  std::string error() const override;
  Status backup(const std::string& dir) override { return make_backup(*db_, *env_, dir_, dir); }
  std::string refusing() const override { return writes_.reason(); }

 private:
  static constexpr size_t kStripes = 1024;
  enum Family : size_t { kData, kOrder, kExpiry, kMeta, kFamilies };
  enum class Sync : bool { kNo, kAsDurability };

  // The record stored under a key, and the change of the counts by a batch.
  struct Stored {
    bool is_there = false;  // perhaps expired
    int64_t expires_at_ms = kNoExpiry;
    Current current;        // as an update sees it; points into the slice that was read into
  };
  struct Delta {
    int64_t keys = 0;
    int64_t volatile_keys = 0;
    int64_t expired = 0;
  };

  // What the body of exclusively() writes, until all of it is written at once.
  struct Together;
  class StripesLocked;

  // A table that cannot be read.
  struct BadTable {
    std::string name;
    std::string what;
    std::string keys;  // that are hit
  };

  RocksEngine(const EngineOptions& options, const StoreMedium& medium);
  Status start();
  Error open_error(const rocksdb::Status& status) const;
  Status check_log_files(LogGuard::Recovery& recovery);
  // What RocksDB makes of what it cannot read.
  struct Reading {
    rocksdb::WALRecoveryMode logs{};
    // A table, or the end of a log, that cannot be read is an error. If not, each mode of recovery
    // goes on behind the damage.
    bool strictly = true;
    bool misses_logs = true;  // a log of which the manifest knows
  };
  rocksdb::DBOptions database_options(const Reading& reading);
  std::vector<rocksdb::ColumnFamilyDescriptor> family_descriptors() const;
  rocksdb::Status open_database(const Reading& reading);
  void close_database();
  Error damage_error(const rocksdb::Status& status);
  rocksdb::Status read_table(const std::string& path, bool all_blocks);
  std::vector<BadTable> bad_tables(uint64_t most_bytes);
  Status open_strictly();
  Status open_recovering();
  Status reconcile();
  Status read_meta(uint64_t& seed, bool& counted);
  Status put_meta(std::string_view name, uint64_t word);
  Status flush_meta();
  void recount(const rocksdb::Snapshot* snapshot);
  void stop_recount();
  void close();

  rocksdb::ColumnFamilyHandle* family(Family f) const { return families_[f]; }
  bool is_past(int64_t expires_at_ms) const {
    return expires_at_ms != kNoExpiry && expires_at_ms <= clock_.now_ms();
  }
  bool pause() const { return checkpoint_ != nullptr && checkpoint_(); }
  std::mutex& stripe(uint64_t hash) { return stripes_[hash % kStripes]; }

  size_t memtable_bytes() const;
  uint64_t memory_bytes() const;
  // Called when so many bytes at once may have come into the caches: the buffers that hold them
  // next are taken beside what the caches take by then, not beside what they took before.
  void note_large(size_t bytes) {
    constexpr size_t kLargeBytes = 65'536;
    if (bytes >= kLargeBytes) account_.note_data(memory_bytes());
  }
  Together* together() const;
  bool load(std::string_view key, rocksdb::PinnableSlice& raw, Stored& out);
  // The same under the lock of the key's stripe, with what may only be read there.
  bool load_locked(std::string_view key, uint64_t hash, rocksdb::PinnableSlice& raw, Stored& out);
  std::unique_ptr<rocksdb::Iterator> order(const rocksdb::ReadOptions& options) const;
  bool parse(std::string_view record, Stored& out);
  bool may_have_expired() const;
  // Adds the change to the batch; false = nothing to do.
  bool add(rocksdb::WriteBatchBase& batch, std::string_view key, uint64_t hash, const Stored& old,
           const Change& change, Delta& delta);
  // The record to be written under a key.
  struct Written {
    std::string_view value;
    int64_t expires_at_ms = kNoExpiry;
    uint64_t version = 0;
  };
  void add_put(rocksdb::WriteBatchBase& batch, std::string_view key, uint64_t hash,
               const Stored& old, const Written& written, Delta& delta);
  uint64_t next_version() { return versions_.fetch_add(1, std::memory_order_relaxed); }
  void add_erase(rocksdb::WriteBatchBase& batch, std::string_view key, uint64_t hash,
                 const Stored& old, Delta& delta);
  template <class F>
  Outcome write_what(F&& adds);
  Outcome write(rocksdb::WriteBatch& batch, const Delta& delta, Sync sync);
  Outcome fail(const rocksdb::Status& status);
  std::string note_error(const rocksdb::Status& status);
  uint32_t expire_batch(uint32_t limit);
  // Removes those whose time is over; returns their number.
  uint32_t remove_expired(std::span<const std::string> keys);
  Outcome not_found(std::string_view key, const Stored& stored);
  void try_to_resume();
  void stop_resuming();
  void put_mark();
  Outcome walk(const KeyRange& range, bool values, ItemVisitor visit);
  bool is_live(std::string_view key);

  Clock& clock_;
  bool (*const checkpoint_)();
  const std::string dir_;
  const bool sync_;
  const uint32_t table_files_;
  const bool recover_;
  const size_t write_buffer_bytes_;
  bool has_bad_tables_ = false;  // found by recovery
  const std::unique_ptr<rocksdb::Env> env_;
  LogGuard guard_;
  ErrorLog error_log_;
  WriteState writes_{error_log_};
  uint64_t seed_ = 0;
  MemoryAccount own_account_{0};
  MemoryAccount& account_;
  std::shared_ptr<rocksdb::Cache> cache_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  std::array<std::mutex, kStripes> stripes_;
  std::array<uint64_t, kStripes> creations_{};  // of keys of a stripe, under its lock

  std::thread counter_;
  std::mutex counter_lock_;  // guards the joining of counter_
  std::atomic<bool> stop_counter_{false};
  std::atomic<bool> exact_{true};
  std::atomic<int64_t> estimate_{0};  // of the keys at open, until they are counted

  std::atomic<int64_t> keys_{0};
  std::atomic<int64_t> volatile_keys_{0};
  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> misses_{0};
  std::atomic<uint64_t> expired_{0};
  std::atomic<uint64_t> swept_{0};  // of these, added to behind expired_: see EngineStats
  std::atomic<uint64_t> random_;
  std::atomic<uint64_t> versions_;  // of the next write; stored with each value
  std::atomic<int64_t> expire_from_ms_{0};  // no expiry before this is left

  std::atomic<int64_t> resume_at_ms_{0};
  std::mutex resumer_lock_;  // guards the next two
  std::thread resumer_;
  int64_t resume_began_ms_ = 0;
  // Released by the thread at its end, acquired by who starts the next one.
  std::atomic<bool> resuming_{false};
  std::atomic<bool> wants_mark_{false};
  mutable std::mutex error_lock_;
  std::string error_;
};

}  // namespace rubato::kv
