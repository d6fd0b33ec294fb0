// SPDX-License-Identifier: Apache-2.0
//
// Commands on one key and on several.
#include "kv_server/engine/rocksdb/rocksdb_engine.h"

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/utilities/write_batch_with_index.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "kv_server/engine/hash.h"
#include "kv_server/engine/rocksdb/encoding.h"

namespace rubato::kv {

namespace {

constexpr int64_t kResumeEveryMs = 1000;
constexpr int64_t kResumeWithinMs = 60'000;
constexpr const char* kMarkName = "mark";

rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

}  // namespace

struct RocksEngine::Together {
  const RocksEngine* engine = nullptr;
  rocksdb::WriteBatchWithIndex batch{rocksdb::BytewiseComparator(), 0, true};
  Delta delta;

  static thread_local Together* of_thread;
};
thread_local RocksEngine::Together* RocksEngine::Together::of_thread = nullptr;

// The stripes of some keys stay locked, in their order, until it ends.
class RocksEngine::StripesLocked {
 public:
  // Indices in their order, each once.
  StripesLocked(RocksEngine& engine, std::span<const size_t> indices) {
    if (engine.together() != nullptr) return;  // all are
    guards_.reserve(indices.size());
    for (const size_t i : indices) guards_.emplace_back(engine.stripes_[i]);
  }

 private:
  std::vector<std::unique_lock<std::mutex>> guards_;
};

RocksEngine::Together* RocksEngine::together() const {
  Together* const of_thread = Together::of_thread;
  return of_thread != nullptr && of_thread->engine == this ? of_thread : nullptr;
}

Outcome RocksEngine::exclusively(FunctionRef<void()> body) {
  std::vector<size_t> all(kStripes);
  std::iota(all.begin(), all.end(), size_t{0});
  const StripesLocked locked(*this, all);
  Together together;
  together.engine = this;
  {
    struct Scope {
      explicit Scope(Together& of_body) { Together::of_thread = &of_body; }
      ~Scope() { Together::of_thread = nullptr; }
    };
    const Scope scope(together);
    body();
  }
  rocksdb::WriteBatch& batch = *together.batch.GetWriteBatch();
  if (batch.Count() == 0) return Outcome::kDone;
  return write(batch, together.delta, Sync::kAsDurability);
}

// Reads the record of a key; `out` points into `raw`. False = the storage failed (fail was called).
bool RocksEngine::load(std::string_view key, rocksdb::PinnableSlice& raw, Stored& out) {
  const rocksdb::ReadOptions options;
  Together* const later = together();
  const rocksdb::Status status =
      later == nullptr
          ? db_->Get(options, family(kData), slice(key), &raw)
          : later->batch.GetFromBatchAndDB(db_.get(), options, family(kData), slice(key), &raw);
  if (status.IsNotFound()) return true;
  if (!status.ok()) {
    fail(status);
    return false;
  }
  note_large(raw.size());
  return parse({raw.data(), raw.size()}, out);
}

bool RocksEngine::load_locked(std::string_view key, uint64_t hash, rocksdb::PinnableSlice& raw,
                              Stored& out) {
  if (!load(key, raw, out)) return false;
  if (!out.current.exists) out.current.creations = creations_[hash % kStripes];
  return true;
}

bool RocksEngine::parse(std::string_view record, Stored& out) {
  const auto stored = parse_value(record);
  if (!stored) {
    fail(rocksdb::Status::Corruption("a value without a header"));
    return false;
  }
  out.is_there = true;
  out.expires_at_ms = stored->expires_at_ms;
  if (!is_past(stored->expires_at_ms)) {
    out.current = {true, stored->value, stored->expires_at_ms, stored->version};
  }
  return true;
}

// The keys by hash; inside of exclusively() also those that its body has made.
std::unique_ptr<rocksdb::Iterator> RocksEngine::order(const rocksdb::ReadOptions& options) const {
  auto written = std::unique_ptr<rocksdb::Iterator>(db_->NewIterator(options, family(kOrder)));
  Together* const later = together();
  if (later == nullptr) return written;
  return std::unique_ptr<rocksdb::Iterator>(
      later->batch.NewIteratorWithBase(family(kOrder), written.release()));
}

Outcome RocksEngine::get(std::string_view key, ValueSink sink) {
  return get_versioned(key, [&](std::string_view value, uint64_t) { sink(value); });
}

Outcome RocksEngine::get_versioned(std::string_view key, VersionedSink sink) {
  rocksdb::PinnableSlice raw;
  Stored stored;
  if (!load(key, raw, stored)) return Outcome::kFailed;
  if (!stored.current.exists) return not_found(key, stored);
  hits_.fetch_add(1, std::memory_order_relaxed);
  sink(stored.current.value, stored.current.version);
  return Outcome::kDone;
}

// A read removes what it finds expired, as in Redis; what EXEC reads stays as it is until its end.
Outcome RocksEngine::not_found(std::string_view key, const Stored& stored) {
  misses_.fetch_add(1, std::memory_order_relaxed);
  if (stored.is_there && together() == nullptr) {
    const std::string expired(key);
    remove_expired({&expired, 1});
  }
  return Outcome::kNone;
}

Outcome RocksEngine::info(std::string_view key, Info& out) {
  rocksdb::PinnableSlice raw;
  Stored stored;
  if (!load(key, raw, stored)) return Outcome::kFailed;
  if (!stored.current.exists) return not_found(key, stored);
  hits_.fetch_add(1, std::memory_order_relaxed);
  out = {stored.current.value.size(), stored.current.expires_at_ms, std::nullopt};
  return Outcome::kDone;
}

Outcome RocksEngine::set(std::string_view key, std::string_view value,
                         const SetOptions& options) {
  using When = SetOptions::When;
  bool holds = false;
  const Outcome outcome = update(key, [&](const Current& now) {
    if (options.old) (*options.old)(now);
    holds = options.when == When::kAlways || now.exists == (options.when == When::kIfPresent);
    if (!holds) return Change::keep();
    return Change::put(value, options.keep_expiry ? now.expires_at_ms : options.expires_at_ms);
  });
  // The expiry had passed already, and there was no key to erase: the SET is done, too.
  return holds && outcome == Outcome::kNone ? Outcome::kDone : outcome;
}

Outcome RocksEngine::erase(std::string_view key) {
  return update(key, [](const Current&) { return Change::erase(); });
}

Outcome RocksEngine::update(std::string_view key, Updater updater) {
  const uint64_t hash = hash_key(key, seed_);
  const size_t index = hash % kStripes;
  const StripesLocked locked(*this, {&index, 1});
  rocksdb::PinnableSlice raw;
  Stored stored;
  if (!load_locked(key, hash, raw, stored)) return Outcome::kFailed;
  return write_what([&](rocksdb::WriteBatchBase& batch, Delta& delta) {
    return add(batch, key, hash, stored, updater(stored.current), delta);
  });
}

// Writes what `adds` puts into a batch, if it says that there is something: at once, or with all
// else that the body of exclusively() writes.
template <class F>
Outcome RocksEngine::write_what(F&& adds) {
  if (Together* const later = together(); later != nullptr) {
    return adds(later->batch, later->delta) ? Outcome::kDone : Outcome::kNone;
  }
  rocksdb::WriteBatch batch;
  Delta delta;
  const bool changed = adds(batch, delta);
  if (batch.Count() == 0) return Outcome::kNone;
  const Outcome written = write(batch, delta, Sync::kAsDurability);
  return changed || written != Outcome::kDone ? written : Outcome::kNone;
}

Outcome RocksEngine::update_many(std::span<const std::string_view> keys, ManyUpdater updater) {
  const size_t size = keys.size();
  std::vector<uint64_t> hashes(size);
  std::vector<size_t> locked(size);
  for (size_t i = 0; i < size; ++i) {
    hashes[i] = hash_key(keys[i], seed_);
    locked[i] = hashes[i] % kStripes;
  }
  std::sort(locked.begin(), locked.end());
  locked.erase(std::unique(locked.begin(), locked.end()), locked.end());
  const StripesLocked guards(*this, locked);

  std::vector<rocksdb::PinnableSlice> raw(size);
  std::vector<Stored> stored(size);
  std::vector<Current> currents(size);
  std::vector<Change> changes(size);
  for (size_t i = 0; i < size; ++i) {
    if (!load_locked(keys[i], hashes[i], raw[i], stored[i])) return Outcome::kFailed;
    currents[i] = stored[i].current;
  }
  updater(currents, changes);
  return write_what([&](rocksdb::WriteBatchBase& batch, Delta& delta) {
    bool changed = false;
    for (size_t i = 0; i < size; ++i) {
      changed = add(batch, keys[i], hashes[i], stored[i], changes[i], delta) || changed;
    }
    return changed;
  });
}

Outcome RocksEngine::get_many(std::span<const std::string_view> keys, ManySink sink) {
  std::vector<std::string> values;
  std::vector<bool> exists;
  values.reserve(keys.size());
  const Outcome outcome = update_many(keys, [&](std::span<const Current> now, std::span<Change>) {
    for (const Current& current : now) {
      values.emplace_back(current.value);
      exists.push_back(current.exists);
      (current.exists ? hits_ : misses_).fetch_add(1, std::memory_order_relaxed);
    }
  });
  if (outcome == Outcome::kFailed) return outcome;
  std::vector<std::string> missing;
  for (size_t i = 0; i < keys.size(); ++i) {
    sink(i, exists[i] ? std::optional<std::string_view>(values[i]) : std::nullopt);
    if (!exists[i]) missing.emplace_back(keys[i]);
  }
  // As not_found() does.
  if (!missing.empty() && together() == nullptr && may_have_expired()) remove_expired(missing);
  return Outcome::kDone;
}

bool RocksEngine::add(rocksdb::WriteBatchBase& batch, std::string_view key, uint64_t hash,
                      const Stored& old, const Change& change, Delta& delta) {
  using Kind = Change::Kind;
  const Current& now = old.current;
  const bool timed = change.kind == Kind::kPut || change.kind == Kind::kExpiry;
  const bool erases = change.kind == Kind::kErase || (timed && is_past(change.expires_at_ms));
  if (change.kind == Kind::kKeep || (change.kind == Kind::kExpiry && !now.exists)) return false;
  if (erases) {
    if (old.is_there) add_erase(batch, key, hash, old, delta);
    return now.exists;
  }
  if (old.is_there && !now.exists) ++delta.expired;
  if (change.kind == Kind::kPut) {
    const Written put{change.value, change.expires_at_ms, next_version()};
    if (change.version != nullptr) *change.version = put.version;
    add_put(batch, key, hash, old, put, delta);
  } else if (change.kind == Kind::kExpiry) {
    add_put(batch, key, hash, old, {now.value, change.expires_at_ms, now.version}, delta);
  } else {
    std::string value(now.value);
    value.resize(std::max(value.size(), change.offset + change.value.size()), '\0');
    value.replace(change.offset, change.value.size(), change.value);
    add_put(batch, key, hash, old, {value, now.expires_at_ms, next_version()}, delta);
  }
  return true;
}

void RocksEngine::add_put(rocksdb::WriteBatchBase& batch, std::string_view key, uint64_t hash,
                          const Stored& old, const Written& written, Delta& delta) {
  const int64_t expires_at_ms = written.expires_at_ms;
  const std::string header = value_header(expires_at_ms, written.version);
  const rocksdb::Slice key_slice = slice(key);
  const rocksdb::Slice value_parts[2] = {header, slice(written.value)};
  batch.Put(family(kData), rocksdb::SliceParts(&key_slice, 1),
            rocksdb::SliceParts(value_parts, 2)).PermitUncheckedError();
  if (!old.current.exists) ++creations_[hash % kStripes];
  if (!old.is_there) {
    batch.Put(family(kOrder), ordered_key(hash, key), "").PermitUncheckedError();
    ++delta.keys;
  }
  if (old.expires_at_ms == expires_at_ms) return;
  if (old.expires_at_ms != kNoExpiry) {
    const auto word = static_cast<uint64_t>(old.expires_at_ms);
    batch.Delete(family(kExpiry), ordered_key(word, key)).PermitUncheckedError();
    --delta.volatile_keys;
  }
  if (expires_at_ms != kNoExpiry) {
    const auto word = static_cast<uint64_t>(expires_at_ms);
    batch.Put(family(kExpiry), ordered_key(word, key), "").PermitUncheckedError();
    ++delta.volatile_keys;
  }
}

void RocksEngine::add_erase(rocksdb::WriteBatchBase& batch, std::string_view key, uint64_t hash,
                            const Stored& old, Delta& delta) {
  batch.Delete(family(kData), slice(key)).PermitUncheckedError();
  batch.Delete(family(kOrder), ordered_key(hash, key)).PermitUncheckedError();
  --delta.keys;
  if (!old.current.exists) ++delta.expired;
  if (old.expires_at_ms == kNoExpiry) return;
  const auto word = static_cast<uint64_t>(old.expires_at_ms);
  batch.Delete(family(kExpiry), ordered_key(word, key)).PermitUncheckedError();
  --delta.volatile_keys;
}

// RocksDB writes waiting batches of all threads as one group with one fsync.
Outcome RocksEngine::write(rocksdb::WriteBatch& batch, const Delta& delta, Sync sync) {
  if (writes_.refusing()) {
    const std::lock_guard guard(error_lock_);
    error_ = writes_.reason();
    return Outcome::kFailed;
  }
  if (wants_mark_.load(std::memory_order_acquire)) put_mark();
  rocksdb::WriteOptions options;
  options.sync = sync_ && sync == Sync::kAsDurability;
  const rocksdb::Status status = db_->Write(options, &batch);
  if (!status.ok()) {
    writes_.refused(note_error(status));
    return Outcome::kFailed;
  }
  note_large(batch.GetDataSize());
  keys_.fetch_add(delta.keys, std::memory_order_relaxed);
  volatile_keys_.fetch_add(delta.volatile_keys, std::memory_order_relaxed);
  expired_.fetch_add(static_cast<uint64_t>(delta.expired), std::memory_order_relaxed);
  return Outcome::kDone;
}

Outcome RocksEngine::fail(const rocksdb::Status& status) {
  error_log_.say(note_error(status));
  return Outcome::kFailed;
}

// Keeps the error for replies; returns its line.
std::string RocksEngine::note_error(const rocksdb::Status& status) {
  std::string text = status.ToString();
  std::replace(text.begin(), text.end(), '\n', ' ');
  const std::lock_guard guard(error_lock_);
  error_ = text;
  return text;
}

// After a failed write RocksDB takes no more writes until it is asked to resume, and nobody else
// asks. Its 7.8 may never return from that: a flush that fails as it syncs a log leaves its
// memtables marked as being flushed, and resuming waits for them. Then writes are refused until a
// restart, but no worker hangs.
void RocksEngine::try_to_resume() {
  if (!writes_.refusing()) return;
  const int64_t now_ms = clock_.now_ms();
  if (now_ms < resume_at_ms_.load(std::memory_order_relaxed)) return;
  resume_at_ms_.store(now_ms + kResumeEveryMs, std::memory_order_relaxed);
  const std::unique_lock guard(resumer_lock_, std::try_to_lock);
  if (!guard.owns_lock()) return;
  if (resuming_.exchange(true, std::memory_order_acquire)) {
    if (now_ms - resume_began_ms_ < kResumeWithinMs) return;
    return error_log_.say("the store does not resume: writes are refused until a restart");
  }
  resume_began_ms_ = now_ms;
  if (resumer_.joinable()) resumer_.join();
  resumer_ = std::thread([this] {
    if (db_->Resume().ok()) {
      put_mark();
      writes_.taken();
    }
    resuming_.store(false, std::memory_order_release);
  });
}

void RocksEngine::stop_resuming() {
  const std::lock_guard guard(resumer_lock_);
  if (resuming_.load(std::memory_order_acquire)) {
    rocksdb::CancelAllBackgroundWork(db_.get(), false);
  }
  if (resumer_.joinable()) resumer_.join();
}

// A record that is in memory only. RocksDB resumes by writing what is in memory to tables, which
// begins a new log; if nothing is there it goes on with the log that failed, which aborts the
// process.
void RocksEngine::put_mark() {
  wants_mark_.store(false, std::memory_order_release);
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  db_->Put(options, family(kMeta), kMarkName, "").PermitUncheckedError();
}

std::string RocksEngine::error() const {
  const std::lock_guard guard(error_lock_);
  return error_;
}

uint64_t RocksEngine::size() const {
  int64_t keys = keys_.load(std::memory_order_relaxed);
  if (const Together* const later = together(); later != nullptr) keys += later->delta.keys;
  if (!exact_.load(std::memory_order_acquire)) keys += estimate_.load(std::memory_order_relaxed);
  return static_cast<uint64_t>(std::max<int64_t>(keys, 0));
}

EngineStats RocksEngine::stats() const {
  EngineStats stats;
  stats.keys = size();
  stats.volatile_keys = static_cast<uint64_t>(
      std::max<int64_t>(volatile_keys_.load(std::memory_order_relaxed), 0));
  stats.used_bytes = memory_bytes();
  stats.maxmemory_bytes = account_.limit();
  stats.hits = hits_.load(std::memory_order_relaxed);
  stats.misses = misses_.load(std::memory_order_relaxed);
  stats.swept = swept_.load(std::memory_order_acquire);  // before expired_, which is no less then
  stats.expired = expired_.load(std::memory_order_relaxed);
  stats.keys_exact = exact_.load(std::memory_order_acquire);
  return stats;
}

}  // namespace rubato::kv
