// SPDX-License-Identifier: Apache-2.0
//
// Going on after damage (EngineOptions::recover).
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstdint>

#include "base/log.h"
#include "kv_server/engine/hash.h"
#include "kv_server/engine/rocksdb/encoding.h"
#include "kv_server/engine/rocksdb/rocksdb_engine.h"

namespace rubato::kv {
namespace {

constexpr uint32_t kBatch = 1000;  // changes that are written at once
// At the start so much of the tables is read as a whole. Of a larger database the parts that lead
// to the blocks are read, and the blocks when they are needed: each has a checksum.
constexpr uint64_t kReadAtStartBytes = uint64_t{256} << 20;

rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
std::string_view view(const rocksdb::Slice& bytes) { return {bytes.data(), bytes.size()}; }

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string printable(std::string key) {
  std::replace_if(key.begin(), key.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return key;
}

// Of what is on the disk. Not so where a disk fails to read, or another process has the database:
// then all may be whole, and nothing is left out.
bool is_damage(const rocksdb::Status& status) {
  return status.IsCorruption() || status.IsNotFound() || status.IsPathNotFound();
}

// Collects changes and writes them when there are kBatch of them, and on demand.
class Writer {
 public:
  explicit Writer(rocksdb::DB& db) : db_(db) {}

  void put(rocksdb::ColumnFamilyHandle* family, const std::string& key) {
    batch_.Put(family, key, "").PermitUncheckedError();
    if (batch_.Count() >= kBatch) finish();
  }
  void erase(rocksdb::ColumnFamilyHandle* family, rocksdb::Slice key) {
    batch_.Delete(family, key).PermitUncheckedError();
    if (batch_.Count() >= kBatch) finish();
  }
  rocksdb::Status finish() {
    rocksdb::WriteOptions durable;
    durable.sync = true;
    if (status_.ok()) status_ = db_.Write(durable, &batch_);
    batch_.Clear();
    return status_;
  }

 private:
  rocksdb::DB& db_;
  rocksdb::WriteBatch batch_;
  rocksdb::Status status_;
};

}  // namespace

// Only the holder of the lock looks at the logs, as another server may be writing them.
Status RocksEngine::check_log_files(LogGuard::Recovery& recovery) {
  rocksdb::FileLock* lock = nullptr;
  if (const auto locked = env_->LockFile(dir_ + "/LOCK", &lock); !locked.ok()) {
    return open_error(locked);
  }
  Status checked = Done{};
  if (recover_) {
    auto recovered = guard_.recover();
    if (recovered.ok()) {
      recovery = std::move(recovered).value();
    } else {
      checked = Error{recovered.error()};
    }
  } else {
    checked = guard_.check();
  }
  env_->UnlockFile(lock).PermitUncheckedError();
  return checked;
}

Status RocksEngine::open_strictly() {
  LogGuard::Recovery none;
  Status checked = check_log_files(none);
  if (!checked.ok()) return checked;
  const rocksdb::Status status =
      open_database({.logs = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords});
  if (status.IsCorruption()) return damage_error(status);
  if (!status.ok()) return open_error(status);
  const std::vector<BadTable> bad = bad_tables(kReadAtStartBytes);
  if (bad.empty()) return Done{};
  close_database();
  return Error{"the database in " + dir_ + " is damaged: " + bad.front().name + ": " +
               bad.front().what + recover_advice()};
}

// Up to the damage, so that no write is there without those before it. Where tables were written
// from beyond it already, or a log is gone, that cannot be had, and the newer logs are read as
// well; of a damaged log itself, which was cut at the damage, no more. Tables that cannot be read
// stay: their keys answer with an error, since a key must not be taken for missing, or an old value
// for the last. Beside them RocksDB does not stop at the damage of a log.
Status RocksEngine::open_recovering() {
  using Mode = rocksdb::WALRecoveryMode;
  LogGuard::Recovery recovery;
  Status checked = check_log_files(recovery);
  if (!checked.ok()) return checked;
  std::vector<std::string>& lost = recovery.lost;
  const bool whole = !recovery.cut;
  rocksdb::Status status = open_database({Mode::kPointInTimeRecovery, true, whole});
  if (is_damage(status) && whole) status = open_database({Mode::kPointInTimeRecovery, false, true});
  if (is_damage(status)) {
    lost.push_back("newer writes were kept already, so a key may be back at an older value: " +
                   one_line(status.ToString()));
    status = open_database({Mode::kSkipAnyCorruptedRecords, false, false});
  }
  if (!status.ok()) return open_error(status);
  const std::vector<BadTable> bad = bad_tables(UINT64_MAX);
  has_bad_tables_ = !bad.empty();
  for (const BadTable& table : bad) lost.push_back(table.name + ": " + table.what + table.keys);
  if (lost.empty()) lost.push_back("the log is whole, nothing is left out");
  for (const std::string& line : lost) {
    log_line(LogLevel::kWarning, LogEvent::kStart, "recovery of " + dir_ + ": " + line);
  }
  return Done{};
}

// RocksDB does not always name the table whose damage keeps it from opening. A table that a crash
// left half written, and that is not in use, cannot be told from it.
Error RocksEngine::damage_error(const rocksdb::Status& status) {
  std::vector<std::string> names;
  env_->GetChildren(dir_, &names).PermitUncheckedError();
  std::string unreadable;
  for (const std::string& name : names) {
    if (!name.ends_with(".sst") || read_table(dir_ + "/" + name, true).ok()) continue;
    unreadable += (unreadable.empty() ? "" : ", ") + name;
  }
  Error error = open_error(status);
  if (!unreadable.empty()) {
    error.message += "; tables that cannot be read: " + unreadable;
  } else if (error.message.find(".log") == error.message.npos) {
    // A record of which a power cut has left both ends reads so.
    std::string logs;
    for (const std::string& name : names) {
      if (name.ends_with(".log")) logs += (logs.empty() ? "" : " or ") + name;
    }
    if (!logs.empty()) error.message += "; " + logs + " is damaged";
  }
  return error;
}

rocksdb::Status RocksEngine::read_table(const std::string& path, bool all_blocks) {
  const rocksdb::Options options(database_options({}), family_descriptors().front().options);
  rocksdb::SstFileReader reader(options);
  const rocksdb::Status status = reader.Open(path);
  return status.ok() && all_blocks ? reader.VerifyChecksum() : status;
}

// Reads the tables without the database's cache: their footers, properties and indices, and the
// blocks of all if they are no more than `most_bytes`. A compaction may be at work.
std::vector<RocksEngine::BadTable> RocksEngine::bad_tables(uint64_t most_bytes) {
  db_->DisableFileDeletions().PermitUncheckedError();
  std::vector<rocksdb::LiveFileMetaData> tables;
  db_->GetLiveFilesMetaData(&tables);
  uint64_t bytes = 0;
  for (const rocksdb::LiveFileMetaData& table : tables) bytes += table.size;
  std::vector<BadTable> bad;
  for (const rocksdb::LiveFileMetaData& table : tables) {
    const rocksdb::Status status = read_table(table.db_path + table.name, bytes <= most_bytes);
    if (status.ok()) continue;
    const bool of_data = table.column_family_name == "default";
    bad.push_back({table.name.substr(1), one_line(status.ToString()),
                   of_data ? "; it has keys from '" + printable(table.smallestkey) + "' to '" +
                                 printable(table.largestkey) + "', which may answer -IOERR"
                           : "; SCAN, expiry or DBSIZE may be wrong"});
  }
  db_->EnableFileDeletions(false).PermitUncheckedError();
  return bad;
}

// Newer writes may build on writes that were left out: this makes the order of SCAN and the
// expiries agree with the values. The keys are counted anew. A key that cannot be read does not
// count as gone.
Status RocksEngine::reconcile() {
  const rocksdb::ReadOptions read;
  Writer writer(*db_);
  std::string ignored;
  const auto add_missing = [&](Family index, const std::string& entry) {
    const rocksdb::Status found = db_->Get(read, family(index), entry, &ignored);
    if (found.IsNotFound()) writer.put(family(index), entry);
    return found.IsNotFound() ? rocksdb::Status::OK() : found;
  };
  std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read, family(kData)));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    const std::string_view key = view(it->key());
    const auto stored = parse_value(view(it->value()));
    if (!stored) continue;
    rocksdb::Status put = add_missing(kOrder, ordered_key(hash_key(key, seed_), key));
    if (put.ok() && stored->expires_at_ms != kNoExpiry) {
      put = add_missing(kExpiry, ordered_key(static_cast<uint64_t>(stored->expires_at_ms), key));
    }
    if (!put.ok()) return open_error(put);
  }
  if (!it->status().ok()) return open_error(it->status());
  for (const Family index : {kOrder, kExpiry}) {
    it.reset(db_->NewIterator(read, family(index)));
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      const auto entry = parse_ordered_key(view(it->key()));
      std::string value;
      const rocksdb::Status found =
          entry ? db_->Get(read, family(kData), slice(entry->key), &value)
                : rocksdb::Status::NotFound();
      if (!found.ok() && !found.IsNotFound()) return open_error(found);
      const auto stored = found.ok() ? parse_value(value) : std::nullopt;
      if (found.ok() && !stored) continue;  // a value of which nothing is known
      const bool fits =
          stored && entry->word == (index == kOrder
                                        ? hash_key(entry->key, seed_)
                                        : static_cast<uint64_t>(stored->expires_at_ms));
      if (!fits) writer.erase(family(index), it->key());
    }
    if (!it->status().ok()) return open_error(it->status());
  }
  if (const rocksdb::Status status = writer.finish(); !status.ok()) return open_error(status);
  return Done{};
}

}  // namespace rubato::kv
