// SPDX-License-Identifier: Apache-2.0
//
// Databases of another format. Format 1 is written here as servers of commit 835307f wrote it, byte
// by byte with RocksDB's own calls; only the hash of a key is the engine's, which has not changed.
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kv_server/engine/engine_fixture.h"
#include "kv_server/engine/hash.h"

namespace rubato::kv {
namespace {

constexpr uint64_t kSeed = 42;
constexpr int64_t kLate = 1'800'000'000'000;
enum { kData, kOrder, kExpiry, kMeta, kFamilies };

std::string little_endian(uint64_t word) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(word >> (8 * i)));
  return bytes;
}
std::string big_endian(uint64_t word) {
  const std::string bytes = little_endian(word);
  return {bytes.rbegin(), bytes.rend()};
}

// The families with the options of that commit.
class Raw {
 public:
  explicit Raw(const std::string& dir) {
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.max_open_files = 512;
    options.bytes_per_sync = 1 << 20;
    std::vector<rocksdb::ColumnFamilyDescriptor> wanted;
    for (const char* name : {"default", "order", "expiry", "meta"}) {
      rocksdb::BlockBasedTableOptions table;
      if (wanted.empty()) table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
      rocksdb::ColumnFamilyOptions family;
      family.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
      family.write_buffer_size = size_t{32} << 20;
      family.level_compaction_dynamic_level_bytes = true;
      wanted.emplace_back(name, family);
    }
    rocksdb::DB* db = nullptr;
    const rocksdb::Status opened = rocksdb::DB::Open(options, dir, wanted, &families_, &db);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    db_.reset(db);
  }
  ~Raw() {
    for (auto* family : families_) db_->DestroyColumnFamilyHandle(family);
    EXPECT_TRUE(db_->Close().ok());
  }

  void put_meta(const std::string& name, uint64_t word) {
    rocksdb::WriteOptions durable;
    durable.sync = true;
    EXPECT_TRUE(db_->Put(durable, families_[kMeta], name, little_endian(word)).ok());
  }
  std::string meta(const std::string& name) {
    std::string bytes;
    db_->Get({}, families_[kMeta], name, &bytes).PermitUncheckedError();
    return bytes;
  }
  void set(const std::string& key, const std::string& value, int64_t expires_at_ms) {
    const auto expiry = static_cast<uint64_t>(expires_at_ms);
    rocksdb::WriteBatch batch;
    batch.Put(families_[kData], key, little_endian(expiry) + value).PermitUncheckedError();
    batch.Put(families_[kOrder], big_endian(hash_key(key, kSeed)) + key, "").PermitUncheckedError();
    if (expires_at_ms != kNoExpiry) {
      batch.Put(families_[kExpiry], big_endian(expiry) + key, "").PermitUncheckedError();
    }
    EXPECT_TRUE(db_->Write({}, &batch).ok());
  }
  void erase(const std::string& key) {
    rocksdb::WriteBatch batch;
    batch.Delete(families_[kData], key).PermitUncheckedError();
    batch.Delete(families_[kOrder], big_endian(hash_key(key, kSeed)) + key).PermitUncheckedError();
    EXPECT_TRUE(db_->Write({}, &batch).ok());
  }
  void flush() {
    for (auto* family : families_) EXPECT_TRUE(db_->Flush({}, family).ok());
  }

 private:
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  std::unique_ptr<rocksdb::DB> db_;
};

using Items = std::map<std::string, std::string>;

// What the databases hold: in tables and in the log, with and without an expiry.
Items make_format_1(const std::string& dir, bool closed) {
  Raw raw(dir);
  raw.put_meta("seed", kSeed);
  raw.put_meta("format", 1);
  Items items{{"", "no name"}, {"empty", ""}, {std::string("b\0y", 3), std::string(9, '\xff')}};
  for (int i = 0; i < 300; ++i) items["key:" + std::to_string(i)] = std::string(100, 'v');
  for (const auto& [key, value] : items) raw.set(key, value, kNoExpiry);
  raw.set("gone", "1", kNoExpiry);
  raw.flush();
  raw.erase("gone");
  raw.set("late", "1", kLate);
  raw.set("past", "1", 1);
  items["late"] = "1";
  if (closed) {
    raw.put_meta("volatile", 2);
    raw.put_meta("keys", items.size() + 1);
  }
  return items;
}

Result<std::unique_ptr<Engine>> open(const std::string& dir, Clock& clock) {
  EngineOptions options;
  options.dir = dir;
  options.clock = &clock;
  return open_rocksdb_engine(options);
}

void expect_items(Engine& engine, const Items& items) {
  Items found;
  EXPECT_EQ(engine.range({}, UINT64_MAX, [&](std::string_view key, std::string_view value) {
    return found.emplace(key, value).second;
  }), Outcome::kDone);
  EXPECT_EQ(found, items);
  std::map<std::string, int> scanned;
  uint64_t cursor = 0;
  do {
    EXPECT_EQ(engine.scan(cursor, 50, [&](std::string_view key) {
      return ++scanned[std::string(key)] == 1;
    }), Outcome::kDone);
  } while (cursor != 0);
  EXPECT_EQ(scanned.size(), items.size());
  for (const auto& [key, value] : items) {
    uint64_t version = 0;
    EXPECT_EQ(engine.get_versioned(key, [&](std::string_view bytes, uint64_t number) {
      EXPECT_EQ(bytes, value);
      version = number;
    }), Outcome::kDone) << key;
    EXPECT_EQ(version, 1u) << key;
  }
}

class Format1 : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(, Format1, ::testing::Values(true, false),
                         [](const auto& closed) { return closed.param ? "closed" : "killed"; });

TEST_P(Format1, is_read_whole_and_becomes_format_2) {
  TempDir dir;
  TurnedClock clock;
  Items items = make_format_1(dir.path(), GetParam());
  {
    auto engine = open(dir.path(), clock);
    ASSERT_TRUE(engine.ok()) << engine.error();
    Engine& store = **engine;
    EXPECT_TRUE(!GetParam() || store.stats().keys_exact);
    expect_items(store, items);
    while (!store.stats().keys_exact) std::this_thread::yield();
    EXPECT_EQ(store.size(), items.size() + 1);
    EXPECT_EQ(store.stats().volatile_keys, 2u);
    EXPECT_EQ(store.expire_some(10), 1u);
    EXPECT_EQ(store.size(), items.size());
    Info info;
    EXPECT_EQ(store.info("late", info), Outcome::kDone);
    EXPECT_EQ(info.expires_at_ms, kLate);
  }
  EXPECT_EQ(Raw(dir.path()).meta("format"), little_endian(2));
  auto again = open(dir.path(), clock);
  ASSERT_TRUE(again.ok()) << again.error();
  expect_items(**again, items);
  const auto version_of = [&again](std::string_view key) {
    uint64_t version = 0;
    (*again)->get_versioned(key, [&](std::string_view, uint64_t number) { version = number; });
    return version;
  };
  EXPECT_EQ((*again)->set("key:0", "new"), Outcome::kDone);
  EXPECT_GT(version_of("key:0"), 1u);
  const auto expire = [](const Current&) { return Change::expire(kLate); };
  EXPECT_EQ((*again)->update("key:1", expire), Outcome::kDone);
  EXPECT_EQ(version_of("key:1"), 1u);
}

TEST(NewerFormat, is_refused_by_its_number_and_those_that_are_read) {
  TempDir dir;
  TurnedClock clock;
  {
    Raw raw(dir.path());
    raw.put_meta("seed", kSeed);
    raw.put_meta("format", 3);
  }
  auto engine = open(dir.path(), clock);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error(), "the database in " + dir.path() +
                                " has format 3, this server reads formats 1 to 2");
  EXPECT_EQ(Raw(dir.path()).meta("format"), little_endian(3));
}

}  // namespace
}  // namespace rubato::kv
