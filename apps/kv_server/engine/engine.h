// SPDX-License-Identifier: Apache-2.0
//
// Engine: the store of the server's keys and values. There are two engines, `memory` and `rocksdb`.
//
// Thread safety: every method may be called by many workers at once. Every method on one key is
// atomic; update_many and set_many are atomic across their keys; scan, keys, range, count and flush
// are not one atomic step (see each).
//
// Checkpoints: methods under "iterating" call Options::checkpoint once per item they look at, never
// with a lock held, so the fiber may be suspended there and go on in another thread. No other
// method calls it. Callbacks run with a lock held unless their method says otherwise: they must be
// short, must not call the engine, and must not reach a checkpoint. Views handed to a callback are
// valid during the callback only. A checkpoint that returns true ends scan, keys, range and count.
//
// Expiry: absolute unix time in milliseconds by Options::clock, kNoExpiry = none. An expired key
// does not exist for any method. Sizes are in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/memory_account.h"
#include "base/result.h"
#include "kv_server/engine/function_ref.h"

namespace rubato::kv {

inline constexpr int64_t kNoExpiry = 0;
inline constexpr size_t kMaxValueBytes = size_t{512} << 20;  // as Redis; keys have the same bound

enum class Outcome : uint8_t {
  kDone,
  kNone,         // no such key, or the condition did not hold: nothing changed
  kOutOfMemory,  // would grow past maxmemory (or the heap is exhausted): nothing changed
  kFailed,       // the storage failed; error() has the line. The engine goes on.
  kCancelled,    // a checkpoint said that the result is no longer wanted
};

// The present state of a key, as an update sees it.
struct Current {
  bool exists = false;
  std::string_view value;
  int64_t expires_at_ms = kNoExpiry;
  uint64_t version = 0;  // see Engine::get_versioned
  // Of a key that is not there: rises with each time that it is made, and others like it.
  uint64_t creations = 0;
  // As it was before this call; see Engine::keeps_use.
  int64_t idle_ms = 0;  // since the last use, modulo 49 days
  bool read = false;    // since the value was written
};

// The change that an update makes to a key. An expiry in the past erases the key. Views must live
// until update returns; they may point into Current::value (of this key, or of one that the same
// call does not change or erases).
struct Change {
  enum class Kind : uint8_t { kKeep, kPut, kSplice, kExpiry, kErase };
  Kind kind = Kind::kKeep;
  std::string_view value;
  size_t offset = 0;
  int64_t expires_at_ms = kNoExpiry;
  uint64_t* version = nullptr;  // of a put: receives the version of the value, unless that fails
  // What the call is to a key that is there: see Engine::keeps_use.
  enum class Use : uint8_t { kNone, kUse, kRead };
  Use use = Use::kUse;

  Change as(Use what) const {
    Change change = *this;
    change.use = what;
    return change;
  }

  static Change keep() { return {}; }
  static Change put(std::string_view value, int64_t expires_at_ms = kNoExpiry) {
    return {Kind::kPut, value, 0, expires_at_ms};
  }
  // Writes `bytes` at `offset`, extending with zero bytes; keeps the expiry; creates the key. For
  // APPEND (offset = current size) and SETRANGE, cheaper than put. Requires offset + bytes.size()
  // <= kMaxValueBytes.
  static Change splice(size_t offset, std::string_view bytes) {
    return {Kind::kSplice, bytes, offset, kNoExpiry};
  }
  // Changes the expiry only; kNoExpiry persists the key. A key that does not exist stays missing.
  static Change expire(int64_t expires_at_ms) { return {Kind::kExpiry, {}, 0, expires_at_ms}; }
  static Change erase() { return {Kind::kErase, {}, 0, kNoExpiry}; }
};

struct Info {
  size_t value_bytes = 0;
  int64_t expires_at_ms = kNoExpiry;
  // How long the key was not used, modulo 49 days; empty = see Engine::keeps_use.
  std::optional<int64_t> idle_ms;
};

struct KeyValue {
  std::string_view key;
  std::string_view value;
};

// Keys in byte order, from `start` to `end` (no value: to the last key).
struct KeyRange {
  std::string_view start;  // inclusive
  std::optional<std::string_view> end;
  bool end_inclusive = true;
};

using ValueSink = FunctionRef<void(std::string_view value)>;
using VersionedSink = FunctionRef<void(std::string_view value, uint64_t version)>;
using Updater = FunctionRef<Change(const Current&)>;
using ManySink = FunctionRef<void(size_t index, std::optional<std::string_view> value)>;
using ManyUpdater = FunctionRef<void(std::span<const Current>, std::span<Change>)>;
// A visitor returns false to stop.
using KeyVisitor = FunctionRef<bool(std::string_view key)>;
using ItemVisitor = FunctionRef<bool(std::string_view key, std::string_view value)>;

struct SetOptions {
  enum class When : uint8_t { kAlways, kIfAbsent, kIfPresent };
  When when = When::kAlways;
  bool keep_expiry = false;  // KEEPTTL; expires_at_ms is then ignored
  int64_t expires_at_ms = kNoExpiry;
  // Gets the old state, whether or not the condition holds (SET ... GET, GETSET).
  std::optional<FunctionRef<void(const Current&)>> old = std::nullopt;
};

struct EngineStats {
  uint64_t keys = 0;
  uint64_t volatile_keys = 0;  // keys with an expiry
  uint64_t used_bytes = 0;
  uint64_t maxmemory_bytes = 0;  // 0 = unlimited
  uint64_t evicted = 0;          // keys removed to make room
  uint64_t hits = 0;             // get and info that found their key
  uint64_t misses = 0;
  uint64_t expired = 0;          // keys removed because their time was over
  uint64_t swept = 0;            // of these: by expire_some, and not as somebody asked for them
  bool keys_exact = true;        // false while a recount after a crash is running
};

// Unix time; injected so that tests can turn it. Thread safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_ms() = 0;
  // The same, cheaper, up to some ten milliseconds late.
  virtual int64_t coarse_ms() { return now_ms(); }
};

// CLOCK_REALTIME. Lives as long as the process.
Clock& system_clock();

enum class Durability : uint8_t {
  kSync,   // the log is on stable storage before a write is acknowledged; concurrent writers share
           // one fsync. kill -9 or power loss lose no acknowledged write.
  kAsync,  // the log is with the operating system before a write is acknowledged: survives kill -9,
           // power loss or a kernel crash loses the last seconds.
};

// What a write does that finds the memory full.
enum class Eviction : uint8_t {
  kNone,         // it is refused
  kLru,          // it removes keys that were not used for long (Redis: allkeys-lru)
  kVolatileTtl,  // it removes keys that expire soon, and is refused if none has an expiry
};

struct EngineOptions {
  Clock* clock = nullptr;         // null = system_clock()
  bool (*checkpoint)() = nullptr; // null = none; the server passes rubato::checkpoint
  uint64_t maxmemory_bytes = 0;   // 0 = unlimited
  Eviction eviction = Eviction::kNone;
  // Shared with the buffers of connections; null = the engine has one of its own.
  MemoryAccount* account = nullptr;
  uint64_t hash_seed = 0;         // 0 = random; tests fix it
  std::string dir;                // rocksdb only: created if missing (its parent is not)
  Durability durability = Durability::kSync;  // rocksdb only
  uint32_t table_files = 512;     // rocksdb only: tables that it keeps open, about
  // rocksdb only: damaged or missing parts of the log are left out, with lines on standard error
  // that name the loss; else the engine refuses to open.
  bool recover = false;
};

// Files that the rocksdb engine has open at most, about: the tables, and logs, the manifest, the
// lock, folders, and the files that compactions and a backup read and write.
inline constexpr uint32_t kStoreFilesBesideTables = 20;

class Engine {
 public:
  virtual ~Engine() = default;

  // --- One key. -------------------------------------------------------------------------------

  // Hands the value to `sink`, once. kDone, kNone, kFailed. Allocates nothing (memory engine).
  virtual Outcome get(std::string_view key, ValueSink sink) = 0;

  // As get, with the number of the write that made the value. Each write gives the value another
  // number, even if the bytes are the same, and a key never has a number twice: within one run of
  // the process numbers only rise, and each run starts at a random one of 2^51 (memory) or 2^62. A
  // changed expiry is no write. Values in directories older than these numbers have 1.
  virtual Outcome get_versioned(std::string_view key, VersionedSink sink) = 0;

  // Whether the engine keeps when a key was used last, for eviction too, and whether its value was
  // read since it was written, by any method for one key or several that hands it out.
  virtual bool keeps_use() const { return false; }

  // About the key, without its value. This is no use of it for eviction and Info::idle_ms.
  virtual Outcome info(std::string_view key, Info& out) = 0;

  // kNone = the condition did not hold. Requires value.size() <= kMaxValueBytes.
  virtual Outcome set(std::string_view key, std::string_view value, const SetOptions& options) = 0;
  Outcome set(std::string_view key, std::string_view value) { return set(key, value, {}); }

  virtual Outcome erase(std::string_view key) = 0;

  // Read-modify-write: calls `updater` with the state of the key, and applies the change that it
  // returns. If room has to be made first it is called again: the last call counts. kDone =
  // changed, kNone = kept (or erased a key that was not there).
  virtual Outcome update(std::string_view key, Updater updater) = 0;

  // --- Several keys, atomically; time and memory grow with their number. ----------------------

  // As update, for all keys at once: fill the changes (all kKeep at first, same order). Either
  // every change is applied or none. Requires distinct keys. kNone = all kept.
  virtual Outcome update_many(std::span<const std::string_view> keys, ManyUpdater updater) = 0;

  // MSET; with `only_if_none_exists` MSETNX (kNone = some key exists). If a key is given twice, the
  // last value counts. Drops expiries.
  Outcome set_many(std::span<const KeyValue> items, bool only_if_none_exists);

  // Runs `body` while no other thread reads or writes the store. What it writes is seen by others,
  // and found on the disk, as a whole or not at all. It may call the methods for one key and for
  // several, size and stats, and must reach no checkpoint. kFailed = nothing was written.
  virtual Outcome exclusively(FunctionRef<void()> body) = 0;

  // Hands the states of the keys at one moment to `sink`, in their order. kDone, kFailed.
  virtual Outcome get_many(std::span<const std::string_view> keys, ManySink sink) = 0;

  // --- Iterating: a checkpoint per item looked at, no lock held there. ------------------------

  // SCAN. Start with cursor 0; finished when it is 0 again. Looks at about `count` keys. A key that
  // exists during the whole iteration is visited, exactly once; others perhaps. The cursor is a
  // stateless position, below 2^48; every value is acceptable. The visitor runs without a lock and
  // may reach a checkpoint; returning false ends this call early and its page is lost.
  virtual Outcome scan(uint64_t& cursor, size_t count, KeyVisitor visit) = 0;

  // Keys in byte order. The visitor runs without a lock and may reach a checkpoint. Not a snapshot
  // (memory) or one (rocksdb): a key that exists throughout is visited exactly once.
  virtual Outcome keys(const KeyRange& range, KeyVisitor visit) = 0;

  // Keys and values in byte order, at most `limit`. As keys, but the visitor may run with a lock
  // held: it must not reach a checkpoint.
  virtual Outcome range(const KeyRange& range, uint64_t limit, ItemVisitor visit) = 0;

  virtual Outcome count(const KeyRange& range, uint64_t& out) = 0;

  // Removes every key that exists when it is called; returns when their memory is given back.
  virtual Outcome flush() = 0;

  // --- Housekeeping. --------------------------------------------------------------------------

  // Some key, about uniformly; kNone = there is none. `sink` gets the key.
  virtual Outcome random_key(ValueSink sink) = 0;

  // Number of keys; may still count keys that are expired and not yet removed.
  virtual uint64_t size() const = 0;

  // Active expiry: removes at most `limit` keys whose time is over, returns how many. Call it about
  // ten times a second, and again at once while it returns `limit`. It reaches checkpoints as the
  // iterating methods do.
  virtual uint64_t expire_some(uint32_t limit) = 0;

  virtual EngineStats stats() const = 0;
  virtual void set_maxmemory(uint64_t bytes) = 0;
  virtual void set_eviction(Eviction eviction) = 0;
  // Would a write of new data be refused now? Makes room first, if there is eviction.
  virtual bool is_full() { return false; }
  virtual std::string_view name() const = 0;

  // The last storage error as one line, empty if there was none.
  virtual std::string error() const { return {}; }

  // Makes the folder `dir`, absolute or relative to the working directory, with a copy of the data,
  // with which a server starts: every write that was acknowledged before the call, and of those
  // that are made meanwhile the first so many. Reads and writes go on. Blocks for as long as files
  // are written, without a checkpoint: not for workers. One call at a time. Fails with one line,
  // where `dir` exists and where the engine keeps nothing.
  virtual Status backup(const std::string& dir);

  // Why writes fail at present, as one line; empty = they do not.
  virtual std::string refusing() const { return {}; }
};

Result<std::unique_ptr<Engine>> open_memory_engine(const EngineOptions& options);

// Fails with one line when the directory is locked by another process, not writable, or damaged.
Result<std::unique_ptr<Engine>> open_rocksdb_engine(const EngineOptions& options);

}  // namespace rubato::kv
