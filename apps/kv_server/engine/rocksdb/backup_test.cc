// SPDX-License-Identifier: Apache-2.0
//
// Backups of the rocksdb engine: which writes they hold, and what is left of those that fail.
#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kv_server/engine/engine_fixture.h"
#include "kv_server/engine/rocksdb/log_guard.h"
#include "kv_server/engine/rocksdb/rocksdb_engine.h"

namespace rubato::kv {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWriteBufferBytes = 64 << 10;

std::unique_ptr<Engine> open_in(const std::string& dir, const StoreMedium& medium) {
  EngineOptions options;
  options.dir = dir;
  options.durability = Durability::kAsync;
  auto opened = RocksEngine::open(options, medium);
  EXPECT_TRUE(opened.ok()) << opened.error();
  return opened.ok() ? std::move(opened).value() : nullptr;
}

std::string refusal(const std::string& dir) {
  EngineOptions options;
  options.dir = dir;
  auto opened = open_rocksdb_engine(options);
  return opened.ok() ? "" : opened.error();
}

std::string value_of(Engine& engine, const std::string& key) {
  std::string value;
  engine.get(key, [&](std::string_view found) { value = found; });
  return value;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Writes numbers in order, each to a key of its own and to the key that has the last. Every eighth
// value is larger than what RocksDB hands to the kernel at once.
class Writer {
 public:
  Writer(Engine& engine, int index)
      : name_("w" + std::to_string(index) + ":"), thread_([this, &engine] { write(engine); }) {}

  const std::string& name() const { return name_; }
  uint64_t acknowledged() const { return acknowledged_.load(); }
  void stop() {
    stop_ = true;
    thread_.join();
  }

  // How many of its writes the engine has. They must be the first so many.
  uint64_t held_by(Engine& engine) const {
    const std::string last = value_of(engine, name_ + "last");
    const uint64_t held = last.empty() ? 0 : std::stoull(last);
    const std::string end = name_ + "l";  // behind the digits
    uint64_t count = 0;
    EXPECT_EQ(engine.count({name_, end, false}, count), Outcome::kDone);
    EXPECT_EQ(count, held);
    for (uint64_t n = 1; n <= held; ++n) {
      EXPECT_EQ(value_of(engine, name_ + std::to_string(n)), value(n)) << name_ << n;
    }
    return held;
  }

 private:
  static std::string value(uint64_t n) {
    return std::string(n % 8 == 0 ? 200'000 : 100, static_cast<char>('a' + n % 26));
  }

  void write(Engine& engine) {
    for (uint64_t n = 1; !stop_; ++n) {
      const std::string number = std::to_string(n);
      const std::string bytes = value(n);
      const std::string key = name_ + number;
      const std::string last = name_ + "last";
      const KeyValue items[] = {{key, bytes}, {last, number}};
      EXPECT_EQ(engine.set_many(items, false), Outcome::kDone);
      acknowledged_ = n;
    }
  }

  const std::string name_;
  std::atomic<uint64_t> acknowledged_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class Backup : public ::testing::Test {
 protected:
  std::string db() const { return dir_.path() + "/db"; }
  std::string copy(size_t number = 0) const { return dir_.path() + "/b" + std::to_string(number); }
  std::unique_ptr<Engine> open_db() { return open_in(db(), {medium_, kWriteBufferBytes}); }

  // What is beside the database.
  std::set<std::string> beside() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_.path())) {
      names.insert(entry.path().filename().string());
    }
    names.erase("db");
    return names;
  }

  TempDir dir_;
  std::shared_ptr<rocksdb::FileSystem> medium_;
};

TEST_F(Backup, holds_of_each_writer_the_first_writes_and_all_acknowledged_before) {
  constexpr size_t kBackups = 8;
  const auto engine = open_db();
  std::vector<std::unique_ptr<Writer>> writers;
  for (int i = 0; i < 4; ++i) writers.push_back(std::make_unique<Writer>(*engine, i));
  std::vector<std::vector<uint64_t>> before(kBackups);
  for (size_t b = 0; b < kBackups; ++b) {
    const uint64_t more = writers[0]->acknowledged() + 20;
    while (writers[0]->acknowledged() < more) std::this_thread::yield();
    for (const auto& writer : writers) before[b].push_back(writer->acknowledged());
    const Status made = engine->backup(copy(b));
    EXPECT_TRUE(made.ok()) << made.error();
  }
  for (const auto& writer : writers) writer->stop();
  for (size_t b = 0; b < kBackups; ++b) {
    SCOPED_TRACE("backup " + std::to_string(b));
    const auto restored = open_in(copy(b), {});
    ASSERT_NE(restored, nullptr);
    uint64_t keys = 0;
    for (size_t i = 0; i < writers.size(); ++i) {
      const uint64_t held = writers[i]->held_by(*restored);
      EXPECT_GE(held, before[b][i]);
      EXPECT_LE(held, writers[i]->acknowledged());
      keys += held + (held > 0 ? 1 : 0);
    }
    while (!restored->stats().keys_exact) std::this_thread::yield();
    EXPECT_EQ(restored->size(), keys);
  }
}

TEST_F(Backup, of_a_quiet_database_has_no_log_and_starts_and_misses_none) {
  const auto engine = open_db();
  SetOptions late;
  late.expires_at_ms = int64_t{1} << 60;
  ASSERT_EQ(engine->set("k", "v", late), Outcome::kDone);
  ASSERT_TRUE(engine->backup(copy()).ok());
  ASSERT_EQ(engine->set("k", "later"), Outcome::kDone);
  EXPECT_EQ(read_file(copy() + "/LIVE_LOG"), "0 ended 0\n");
  for (const char* generation : {"of the backup", "of its own log"}) {
    SCOPED_TRACE(generation);
    const auto restored = open_in(copy(), {});
    ASSERT_NE(restored, nullptr);
    EXPECT_EQ(value_of(*restored, "k"), "v");
    Info info;
    EXPECT_EQ(restored->info("k", info), Outcome::kDone);
    EXPECT_EQ(info.expires_at_ms, late.expires_at_ms);
    EXPECT_EQ(restored->set("more", "1"), Outcome::kDone);
  }
}

TEST_F(Backup, of_a_backup_is_one_too) {
  std::unique_ptr<Engine> engine = open_db();
  ASSERT_EQ(engine->set("k", "v"), Outcome::kDone);
  ASSERT_TRUE(engine->backup(copy(0)).ok());
  engine = open_in(copy(0), {});
  ASSERT_TRUE(engine->backup(copy(1)).ok());
  engine = open_in(copy(1), {});
  EXPECT_EQ(value_of(*engine, "k"), "v");
}

// Of a log that is written to the end is not known before; of a backup it is.
TEST_F(Backup, that_lost_something_since_is_refused_by_the_name_of_the_file) {
  const auto engine = open_db();
  std::string log;
  for (size_t b = 0; log.empty(); ++b) {  // until a write comes between the flush and the copy
    ASSERT_LT(b, 200u);
    Writer writer(*engine, static_cast<int>(b));
    while (writer.acknowledged() == 0) std::this_thread::yield();
    ASSERT_TRUE(engine->backup(copy(b)).ok());
    writer.stop();
    for (const auto& entry : fs::directory_iterator(copy(b))) {
      if (entry.path().extension() == ".log") log = std::max(log, entry.path().string());
    }
  }
  const std::string name = fs::path(log).filename().string();
  const std::string bytes = read_file(log);
  std::ofstream(log, std::ios::trunc) << "";
  EXPECT_NE(refusal(fs::path(log).parent_path()).find(name + " has 0 bytes and had " +
                                                      std::to_string(bytes.size())),
            std::string::npos);
  fs::remove(log);
  EXPECT_NE(refusal(fs::path(log).parent_path()).find(name + " is missing"), std::string::npos);
}

// What a copy of a log shows that was made in the middle of a write.
TEST_F(Backup, ends_with_the_last_whole_write) {
  open_db()->set("k", "v");
  open_db()->set("torn", std::string(1000, 'v'));
  std::string log;
  for (const auto& entry : fs::directory_iterator(db())) {
    if (entry.path().extension() == ".log") log = std::max(log, entry.path().string());
  }
  fs::resize_file(log, read_file(log).find("torn") + 500);
  LogGuard guard(db(), *rocksdb::Env::Default());
  const Status sealed = guard.seal();
  ASSERT_TRUE(sealed.ok()) << sealed.error();
  const std::string number = std::to_string(std::stoi(fs::path(log).stem().string()));
  EXPECT_EQ(read_file(db() + "/LIVE_LOG"),
            number + " ended " + std::to_string(fs::file_size(log)) + "\n");
  const auto engine = open_db();
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(value_of(*engine, "k"), "v");
  EXPECT_EQ(value_of(*engine, "torn"), "");
}

TEST_F(Backup, is_refused_where_it_may_not_be) {
  const auto engine = open_db();
  fs::create_directory(copy(1));
  fs::create_directory(copy(2) + ".partial");
  const std::pair<std::string, std::string> cases[] = {
      {"", "is empty"},
      {copy() + "\n", "has control characters"},
      {copy(1), "exists already"},
      {copy(1) + "/", "exists already"},
      {copy(2), ".partial exists already"},
      {db(), "in the folder of the database"},
      {db() + "/../db/000001.log", "in the folder of the database"},
      {dir_.path() + "/none/b", "No such file"},
      {"/proc/b", "/proc/b"},
  };
  for (const auto& [to, expected] : cases) {
    SCOPED_TRACE(to);
    const Status made = engine->backup(to);
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().find(expected), std::string::npos) << made.error();
    EXPECT_EQ(made.error().find('\n'), std::string::npos) << made.error();
  }
  EXPECT_EQ(beside(), (std::set<std::string>{"b1", "b2.partial"}));
  EXPECT_TRUE(fs::is_empty(copy(1)));
}

TEST(MemoryBackup, is_one_line_that_says_that_nothing_is_kept) {
  const auto engine = open_memory_engine({});
  ASSERT_TRUE(engine.ok());
  const Status made = engine.value()->backup("b");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error(), "the memory engine keeps nothing, so there is no backup of it");
}

// On the way to a backup the disk is full once, at a given operation. Nothing can be linked.
class FullDisk final : public rocksdb::FileSystemWrapper {
 public:
  FullDisk() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}

  const char* Name() const override { return "FullDisk"; }
  void fail_at(int operation) { left_ = operation; }
  bool failed() const { return left_ < 0; }

  rocksdb::IOStatus LinkFile(const std::string&, const std::string&, const rocksdb::IOOptions&,
                             rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::NotSupported();
  }
  rocksdb::IOStatus CreateDir(const std::string& name, const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* dbg) override {
    return is_full(name) ? full(name) : target()->CreateDir(name, options, dbg);
  }
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* dbg) override {
    return is_full(to) ? full(to) : target()->RenameFile(from, to, options, dbg);
  }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* dbg) override {
    if (is_full(name)) return full(name);
    const rocksdb::IOStatus status = target()->NewWritableFile(name, options, file, dbg);
    if (status.ok()) *file = std::make_unique<File>(std::move(*file), name, *this);
    return status;
  }

 private:
  class File final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile> file, std::string name, FullDisk& disk)
        : FSWritableFileOwnerWrapper(std::move(file)), name_(std::move(name)), disk_(disk) {}
    using FSWritableFileOwnerWrapper::Append;
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* dbg) override {
      if (disk_.is_full(name_)) return full(name_);
      return FSWritableFileOwnerWrapper::Append(data, options, dbg);
    }
    rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* dbg) override {
      if (disk_.is_full(name_)) return full(name_);
      return FSWritableFileOwnerWrapper::Sync(options, dbg);
    }

   private:
    const std::string name_;
    FullDisk& disk_;
  };

  static rocksdb::IOStatus full(const std::string& name) {
    return rocksdb::IOStatus::NoSpace("While writing " + name, "No space left on device");
  }
  bool is_full(const std::string& name) {
    return name.find("/db") == std::string::npos && left_-- == 0;
  }

  std::atomic<int> left_{INT32_MAX};
};

TEST_F(Backup, that_finds_no_room_is_one_line_and_leaves_nothing_behind) {
  const auto disk = std::make_shared<FullDisk>();
  medium_ = disk;
  const auto engine = open_db();
  ASSERT_EQ(engine->set("k", "v"), Outcome::kDone);
  int operation = 0;
  for (bool made = false; !made; ++operation) {
    SCOPED_TRACE("operation " + std::to_string(operation));
    ASSERT_LT(operation, 500);
    disk->fail_at(operation);
    const Status status = engine->backup(copy());
    made = status.ok();
    EXPECT_EQ(made, !disk->failed());
    disk->fail_at(INT32_MAX);
    if (made) continue;
    EXPECT_NE(status.error().find("No space left"), std::string::npos) << status.error();
    EXPECT_EQ(status.error().find('\n'), std::string::npos) << status.error();
    EXPECT_EQ(beside(), std::set<std::string>());
  }
  EXPECT_GT(operation, 20);
  EXPECT_EQ(engine->set("later", "v"), Outcome::kDone);
  const auto restored = open_in(copy(), {});
  ASSERT_NE(restored, nullptr);
  EXPECT_EQ(value_of(*restored, "k"), "v");
}

}  // namespace
}  // namespace rubato::kv
