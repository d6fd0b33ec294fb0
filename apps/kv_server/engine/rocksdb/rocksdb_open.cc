// SPDX-License-Identifier: Apache-2.0
//
// Opening, closing, and counting after a crash.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <random>

#include "kv_server/engine/rocksdb/encoding.h"
#include "kv_server/engine/rocksdb/retryable_files.h"
#include "kv_server/engine/rocksdb/rocksdb_engine.h"

namespace rubato::kv {

namespace {

constexpr size_t kCacheBytes = size_t{64} << 20;  // without maxmemory
// Shares of maxmemory. Three families have two memtables each while one is written to a table; then
// writers wait.
constexpr uint64_t kCacheShare = 4;
constexpr uint64_t kMemtableShare = 16;
constexpr int kBloomBits = 10;
constexpr uint64_t kFormat = 2;
constexpr uint64_t kOldestFormat = 1;
constexpr uint64_t kCountStep = 1024;  // keys counted between two looks at the stop flag

constexpr const char* kMetaFamily = "meta";
constexpr std::string_view kFormatName = "format";
constexpr std::string_view kSeedName = "seed";
constexpr std::string_view kKeysName = "keys";
constexpr std::string_view kVolatileName = "volatile";

rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

uint64_t random_word() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

rocksdb::ColumnFamilyOptions family_options(const std::shared_ptr<rocksdb::Cache>& cache,
                                            bool bloom, size_t write_buffer_bytes,
                                            bool bounded) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  // Else the indices and filters of all open tables are beside it.
  table.cache_index_and_filter_blocks = bounded;
  if (bloom) table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kBloomBits));
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.write_buffer_size = write_buffer_bytes;
  options.level_compaction_dynamic_level_bytes = true;
  return options;
}

// RocksDB's own log lies on the same disk, and writing to it once that is full hits an assertion of
// the library as Debian builds it. The server must go on, so errors alone are passed on.
class ErrorsOnly final : public rocksdb::Logger {
 public:
  explicit ErrorsOnly(ErrorLog& log) : Logger(rocksdb::InfoLogLevel::ERROR_LEVEL), log_(log) {}

  using rocksdb::Logger::Logv;
  void Logv(rocksdb::InfoLogLevel level, const char* format, va_list values) override {
    if (level < rocksdb::InfoLogLevel::ERROR_LEVEL || level > rocksdb::InfoLogLevel::FATAL_LEVEL) {
      return;
    }
    char text[512];
    std::vsnprintf(text, sizeof text, format, values);
    log_.say(text);
  }
  void Logv(const char*, va_list) override {}

 private:
  ErrorLog& log_;
};

// A memtable is sealed together with its log: from then on there is a newer log.
class Watch final : public rocksdb::EventListener {
 public:
  using Reason = rocksdb::BackgroundErrorReason;

  Watch(LogGuard& guard, ErrorLog& log, WriteState& writes, std::atomic<bool>& wants_mark)
      : guard_(guard), log_(log), writes_(writes), wants_mark_(wants_mark) {}

  void OnMemTableSealed(const rocksdb::MemTableInfo&) override { guard_.note_newest(); }
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo& info) override {
    if (info.cf_name == kMetaFamily) wants_mark_.store(true, std::memory_order_release);
  }
  void OnBackgroundError(Reason reason, rocksdb::Status* status) override {
    if (stops_writes(reason, *status)) {
      writes_.refused(one_line(status->ToString()));
    } else {
      log_.say("in the background: " + status->ToString());
    }
  }

 private:
  // RocksDB tells of errors that it will retry before it gives them a severity.
  static bool stops_writes(Reason reason, const rocksdb::Status& status) {
    using Severity = rocksdb::Status::Severity;
    const bool only_behind = reason == Reason::kCompaction || reason == Reason::kFlushNoWAL ||
                             reason == Reason::kManifestWriteNoWAL;
    return status.severity() >= Severity::kHardError ||
           (status.severity() == Severity::kNoError && !only_behind);
  }

  LogGuard& guard_;
  ErrorLog& log_;
  WriteState& writes_;
  std::atomic<bool>& wants_mark_;
};

}  // namespace

rocksdb::DBOptions RocksEngine::database_options(const Reading& reading) {
  rocksdb::DBOptions options;
  options.env = env_.get();
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.max_open_files = static_cast<int>(table_files_);
  options.bytes_per_sync = 1 << 20;
  // LogGuard knows the newest log; this option detects older logs that are gone or cut.
  options.track_and_verify_wals_in_manifest = reading.misses_logs;
  options.paranoid_checks = reading.strictly;
  options.wal_recovery_mode = reading.logs;
  // The engine asks to resume itself: RocksDB 7.8's own thread for it, if the database is closed
  // while it waits, never says that it has ended, and the close hangs.
  options.max_bgerror_resume_count = 0;
  options.avoid_flush_during_shutdown = true;  // the mark need not be kept
  options.info_log = std::make_shared<ErrorsOnly>(error_log_);
  options.listeners.push_back(std::make_shared<Watch>(guard_, error_log_, writes_, wants_mark_));
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> RocksEngine::family_descriptors() const {
  std::vector<rocksdb::ColumnFamilyDescriptor> wanted;
  const char* const names[kFamilies] = {"default", "order", "expiry", kMetaFamily};
  for (size_t f = 0; f < kFamilies; ++f) {
    wanted.emplace_back(names[f], family_options(cache_, f == kData, memtable_bytes(),
                                                 account_.limit() != 0));
  }
  return wanted;
}

RocksEngine::RocksEngine(const EngineOptions& options, const StoreMedium& medium)
    : clock_(options.clock != nullptr ? *options.clock : system_clock()),
      checkpoint_(options.checkpoint),
      dir_(options.dir),
      sync_(options.durability == Durability::kSync),
      table_files_(options.table_files),
      recover_(options.recover),
      write_buffer_bytes_(medium.write_buffer_bytes),
      env_(rocksdb::NewCompositeEnv(with_retryable_writes(
          medium.files != nullptr ? medium.files : rocksdb::FileSystem::Default()))),
      guard_(options.dir, *env_),
      seed_(options.hash_seed),
      account_(options.account != nullptr ? *options.account : own_account_),
      cache_(rocksdb::NewLRUCache(kCacheBytes)),
      random_(std::random_device{}()),
      versions_((random_word() >> 2) + kNoVersion + 1) {
  set_maxmemory(options.maxmemory_bytes);
}

Result<std::unique_ptr<Engine>> open_rocksdb_engine(const EngineOptions& options) {
  return RocksEngine::open(options);
}

Result<std::unique_ptr<Engine>> RocksEngine::open(const EngineOptions& options,
                                                  const StoreMedium& medium) {
  if (options.dir.empty()) return Error{"the rocksdb engine takes a directory (--dir PATH)"};
  auto engine = std::unique_ptr<RocksEngine>(new RocksEngine(options, medium));
  const rocksdb::Status made = engine->env_->CreateDirIfMissing(options.dir);
  if (!made.ok()) {
    return Error{"cannot use the directory " + options.dir + ": " + one_line(made.ToString())};
  }
  Status started = engine->start();
  if (!started.ok()) return Error{started.error()};
  return std::unique_ptr<Engine>(std::move(engine));
}

Error RocksEngine::open_error(const rocksdb::Status& status) const {
  std::string text = one_line(status.ToString());
  // RocksDB looks for a missing table by its older name, too, and names that one.
  if (const size_t at = text.find(".ldb: "); at != text.npos) text.replace(at, 4, ".sst");
  const bool locked = text.find("lock file") != std::string::npos ||
                      text.find("lock hold") != std::string::npos;
  if (locked && text.find("ermission") == std::string::npos) {
    return {"the database in " + dir_ + " is in use by another process"};
  }
  if (status.IsCorruption() || status.IsPathNotFound()) {
    return {"the database in " + dir_ + " is damaged: " + text + recover_advice()};
  }
  if (status.IsInvalidArgument()) {
    return {"the database in " + dir_ + " was not written by this server: " + text};
  }
  return {"cannot open the database in " + dir_ + ": " + text};
}

rocksdb::Status RocksEngine::open_database(const Reading& reading) {
  rocksdb::DB* db = nullptr;
  families_.clear();
  const rocksdb::Status status =
      rocksdb::DB::Open(database_options(reading), dir_, family_descriptors(), &families_, &db);
  db_.reset(db);
  return status;
}

void RocksEngine::close_database() {
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* handle : families_) db_->DestroyColumnFamilyHandle(handle);
  families_.clear();
  db_.reset();
}

void RocksEngine::set_maxmemory(uint64_t bytes) {
  account_.set_limit(bytes);
  cache_->SetCapacity(bytes == 0 ? kCacheBytes : bytes / kCacheShare);
  if (db_ == nullptr) return;
  const std::string text = std::to_string(memtable_bytes());
  for (rocksdb::ColumnFamilyHandle* handle : families_) {
    const rocksdb::Status status = db_->SetOptions(handle, {{"write_buffer_size", text}});
    if (!status.ok()) error_log_.say("maxmemory: " + one_line(status.ToString()));
  }
}

size_t RocksEngine::memtable_bytes() const {
  const uint64_t limit = account_.limit();
  return limit == 0 ? write_buffer_bytes_ : std::min(write_buffer_bytes_, limit / kMemtableShare);
}

uint64_t RocksEngine::memory_bytes() const {
  uint64_t memtables = 0;
  db_->GetAggregatedIntProperty("rocksdb.cur-size-all-mem-tables", &memtables);
  return cache_->GetUsage() + memtables;
}

Status RocksEngine::start() {
  Status opened = recover_ ? open_recovering() : open_strictly();
  if (!opened.ok()) return opened;
  guard_.note_newest();
  put_mark();

  exact_ = false;  // until the counts are read, so that close writes none
  uint64_t seed = 0;
  bool counted = false;
  Status read = read_meta(seed, counted);
  if (!read.ok()) return read;
  seed_ = seed;
  if (recover_ && !has_bad_tables_) {
    Status agreed = reconcile();
    if (!agreed.ok()) return agreed;
    counted = false;
    keys_ = volatile_keys_ = 0;
  }
  exact_ = counted;
  if (counted) return Done{};
  uint64_t estimate = 0;
  db_->GetIntProperty(family(kOrder), "rocksdb.estimate-num-keys", &estimate);
  estimate_ = static_cast<int64_t>(estimate);
  counter_ = std::thread([this, snapshot = db_->GetSnapshot()] { recount(snapshot); });
  return Done{};
}

// Reads the words of the meta family and removes the counts, so that they are absent after a crash.
// Makes the words in a new database.
Status RocksEngine::read_meta(uint64_t& seed, bool& counted) {
  const auto word = [&](std::string_view name, uint64_t& out) {
    std::string bytes;
    const rocksdb::Status status =
        db_->Get(rocksdb::ReadOptions(), family(kMeta), slice(name), &bytes);
    if (!status.ok() || bytes.size() != kWordBytes) return false;
    std::memcpy(&out, bytes.data(), kWordBytes);
    return true;
  };
  uint64_t format = 0;
  if (!word(kFormatName, format)) {
    std::unique_ptr<rocksdb::Iterator> any(
        db_->NewIterator(rocksdb::ReadOptions(), family(kData)));
    any->SeekToFirst();
    if (any->Valid()) return Error{"the database in " + dir_ + " was not written by this server"};
    seed = seed_ != 0 ? seed_ : random_word();
    counted = true;
    Status stored = put_meta(kSeedName, seed);
    if (stored.ok()) stored = put_meta(kFormatName, kFormat);
    return stored.ok() ? flush_meta() : stored;
  }
  if (format < kOldestFormat || format > kFormat) {
    return Error{"the database in " + dir_ + " has format " + std::to_string(format) +
                 ", this server reads formats " + std::to_string(kOldestFormat) + " to " +
                 std::to_string(kFormat)};
  }
  if (format != kFormat) {
    // Before the first value that an older server would misread.
    Status noted = put_meta(kFormatName, kFormat);
    if (!noted.ok()) return noted;
  }
  if (!word(kSeedName, seed)) return Error{"the database in " + dir_ + " has lost its hash seed"};
  uint64_t keys = 0;
  uint64_t volatile_keys = 0;
  counted = word(kKeysName, keys) && word(kVolatileName, volatile_keys);
  if (!counted) return Done{};
  keys_ = static_cast<int64_t>(keys);
  volatile_keys_ = static_cast<int64_t>(volatile_keys);
  rocksdb::WriteOptions durable;
  durable.sync = true;
  const rocksdb::Status status = db_->Delete(durable, family(kMeta), slice(kKeysName));
  if (!status.ok()) return open_error(status);
  return Done{};
}

Status RocksEngine::put_meta(std::string_view name, uint64_t word) {
  rocksdb::WriteOptions durable;
  durable.sync = true;
  const std::string bytes = stored_word(word);
  const rocksdb::Status status = db_->Put(durable, family(kMeta), slice(name), bytes);
  if (!status.ok()) return open_error(status);
  return Done{};
}

// A database is unusable without its format and seed, so these must not be lost with the first log.
Status RocksEngine::flush_meta() {
  const rocksdb::Status status = db_->Flush(rocksdb::FlushOptions(), family(kMeta));
  if (!status.ok()) return open_error(status);
  return Done{};
}

void RocksEngine::recount(const rocksdb::Snapshot* snapshot) {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot;
  options.fill_cache = false;
  bool whole = true;
  int64_t counts[2] = {0, 0};
  const Family families[2] = {kOrder, kExpiry};
  for (size_t i = 0; i < 2 && whole; ++i) {
    std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options, family(families[i])));
    uint64_t step = 0;
    for (it->SeekToFirst(); it->Valid() && whole; it->Next()) {
      ++counts[i];
      whole = ++step % kCountStep != 0 || !stop_counter_.load(std::memory_order_relaxed);
    }
    whole = whole && it->status().ok();
  }
  db_->ReleaseSnapshot(snapshot);
  if (!whole) return;
  // The counters hold what changed since the snapshot.
  keys_.fetch_add(counts[0], std::memory_order_relaxed);
  volatile_keys_.fetch_add(counts[1], std::memory_order_relaxed);
  exact_.store(true, std::memory_order_release);
}

void RocksEngine::stop_recount() {
  const std::lock_guard guard(counter_lock_);
  stop_counter_.store(true, std::memory_order_relaxed);
  if (counter_.joinable()) counter_.join();
}

RocksEngine::~RocksEngine() {
  stop_recount();
  if (db_ != nullptr) close();
}

void RocksEngine::close() {
  stop_resuming();
  if (exact_ && put_meta(kVolatileName, static_cast<uint64_t>(volatile_keys_.load())).ok()) {
    static_cast<void>(put_meta(kKeysName, static_cast<uint64_t>(keys_.load())));
  }
  // A log that could not be written, or is not on the disk, gets no note.
  const bool whole = !writes_.refusing() && db_->SyncWAL().ok();
  for (rocksdb::ColumnFamilyHandle* handle : families_) db_->DestroyColumnFamilyHandle(handle);
  guard_.note_newest();
  if (!db_->Close().ok() || !whole) return;
  // RocksDB has let go of the lock, and another server may have the database already.
  rocksdb::FileLock* lock = nullptr;
  if (!env_->LockFile(dir_ + "/LOCK", &lock).ok()) return;
  guard_.note_clean_end();
  env_->UnlockFile(lock).PermitUncheckedError();
}

}  // namespace rubato::kv
