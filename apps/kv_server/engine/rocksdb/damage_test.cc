// SPDX-License-Identifier: Apache-2.0
//
// What a crash leaves in the log is read, and damage is refused, told of and, if asked for, left
// out. Every flip is of a byte of a log that a server was killed over.
#include <fcntl.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <iterator>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "base/prng.h"
#include "kv_server/engine/rocksdb/log_file.h"
#include "kv_server/engine/rocksdb/rocksdb_engine.h"
#include "kv_server/engine/rocksdb/testing.h"

namespace rubato::kv {
namespace {

using namespace testing;

constexpr int kWrites = 200;

std::string key_of(int i) { return "key:" + std::to_string(i); }

// Writes key_of(i) = i for every i, acknowledged each; then dies, or ends as it should.
void write_all(const std::string& dir, bool dies, size_t padding = 0, int writes = kWrites) {
  ASSERT_EQ(in_child([&] {
    auto engine = open_in(dir, Durability::kSync);
    for (int i = 0; i < writes; ++i) {
      const std::string value = std::to_string(i) + std::string(padding, '.');
      if (engine->set(key_of(i), value) != Outcome::kDone) return 1;
    }
    if (dies) _exit(0);
    engine.reset();
    return 0;
  }), 0);
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

size_t below(Prng& prng, size_t limit) { return prng.below(static_cast<uint32_t>(limit)); }

LogState state_of(const std::string& path, std::string_view bytes) {
  write_bytes(path, bytes);
  auto found = check_log(*rocksdb::Env::Default(), path);
  EXPECT_TRUE(found.ok());
  return found->state;
}

// How many of the writes are there, from the first on; -1 = one behind a gap is there, too.
int prefix_kept(const EngineOptions& options) {
  return in_child([&] {
    auto opened = open_rocksdb_engine(options);
    if (!opened.ok()) return 255;
    Engine& engine = **opened;
    const auto has = [&](int i) {
      return engine.get(key_of(i), [](std::string_view) {}) == Outcome::kDone;
    };
    int kept = 0;
    while (kept < kWrites && has(kept)) ++kept;
    for (int i = kept; i < kWrites; ++i) {
      if (has(i)) return 254;
    }
    while (!engine.stats().keys_exact) usleep(100);
    uint64_t cursor = 0;
    uint64_t scanned = 0;
    do {
      engine.scan(cursor, 100, [&](std::string_view) { return ++scanned > 0; });
    } while (cursor != 0);
    const auto expected = static_cast<uint64_t>(kept);
    return engine.size() == expected && scanned == expected ? kept : 253;
  });
}

// 0 = refused in one line that names the log and --recover.
int refused_for_its_log(const std::string& dir) {
  return in_child([&] {
    const std::string line = refusal_of(options_in(dir, Durability::kSync));
    if (line.empty()) return 1;
    const bool named = line.find(".log") != line.npos && line.find("--recover") != line.npos;
    return named && line.find('\n') == line.npos ? 0 : 2;
  });
}

// A log of blocks, in which writes cross from one to the next.
class LogBytes : public ::testing::Test {
 protected:
  void SetUp() override {
    write_all(dir_.path(), true, 600);
    const auto logs = logs_in(dir_.path());
    ASSERT_EQ(logs.size(), 1U);
    whole_ = bytes_of(logs.front());
    ASSERT_GT(whole_.size(), 3 * 32768U);
  }

  // Where each record begins and ends.
  std::vector<std::pair<size_t, size_t>> records() const {
    std::vector<std::pair<size_t, size_t>> found;
    for (size_t at = 0; at + 7 <= whole_.size();) {
      if (at % 32768 > 32768 - 7) {
        at += 32768 - at % 32768;
        continue;
      }
      const size_t length = static_cast<unsigned char>(whole_[at + 4]) |
                            static_cast<size_t>(static_cast<unsigned char>(whole_[at + 5])) << 8;
      found.emplace_back(at, at + 7 + length);
      at += 7 + length;
    }
    return found;
  }

  TempDir dir_;
  std::string scratch_ = dir_.path() + "/scratch";
  std::string whole_;
};

TEST_F(LogBytes, every_beginning_of_a_log_is_what_a_crash_leaves) {
  ASSERT_EQ(state_of(scratch_, whole_), LogState::kWhole);
  Prng prng(test_seed());
  for (int i = 0; i < 150; ++i) {
    const std::string_view cut = std::string_view(whole_).substr(0, below(prng, whole_.size()));
    EXPECT_NE(state_of(scratch_, cut), LogState::kDamaged) << cut.size();
    for (const size_t filling : {size_t{20}, size_t{4096}}) {
      const std::string filled = std::string(cut) + std::string(filling, '\0');
      EXPECT_NE(state_of(scratch_, filled), LogState::kDamaged) << cut.size() << ' ' << filling;
    }
    const std::string zeros(below(prng, 70'000), '\0');
    EXPECT_NE(state_of(scratch_, whole_ + zeros), LogState::kDamaged) << zeros.size();
  }
}

// The file has its size of before, and of the last write the sectors before the last one.
TEST_F(LogBytes, a_last_sector_of_zeros_is_what_a_crash_leaves_however_short) {
  int short_ones = 0;
  for (const auto& [begin, end] : records()) {
    const size_t sector = (end - 1) / 512 * 512;
    if (sector < begin + 7) continue;
    short_ones += end - sector < 16 ? 1 : 0;
    const std::string cut = whole_.substr(0, sector) + std::string(end - sector, '\0');
    EXPECT_NE(state_of(scratch_, cut), LogState::kDamaged) << end - sector << " of " << end;
  }
  EXPECT_GT(short_ones, 0);
}

TEST_F(LogBytes, a_flipped_bit_before_the_last_write_is_damage) {
  Prng prng(test_seed());
  const size_t last_write = whole_.size() - 1300;
  for (int i = 0; i < 300; ++i) {
    std::string flipped = whole_;
    const size_t at = below(prng, i % 2 == 0 ? last_write : 2000);
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << prng.below(8)));
    // The bytes behind a record's end in its block are never read.
    if (state_of(scratch_, flipped) != LogState::kWhole) {
      EXPECT_EQ(state_of(scratch_, flipped), LogState::kDamaged) << at;
    } else {
      EXPECT_GE(at % 32768, 32768U - 6) << at;
    }
  }
}

TEST_F(LogBytes, a_last_write_whose_length_was_changed_is_damage) {
  const size_t last = records().back().first;
  for (int bit = 0; bit < 16; ++bit) {
    std::string flipped = whole_;
    char& byte = flipped[last + 4 + static_cast<size_t>(bit / 8)];
    byte = static_cast<char>(byte ^ (1 << (bit % 8)));
    EXPECT_EQ(state_of(scratch_, flipped), LogState::kDamaged) << bit;
  }
}

TEST_F(LogBytes, zeros_in_the_middle_are_damage) {
  for (const size_t at : {size_t{0}, size_t{700}, size_t{32768}, size_t{40'000}}) {
    std::string holed = whole_;
    holed.replace(at, 512, 512, '\0');
    EXPECT_EQ(state_of(scratch_, holed), LogState::kDamaged) << at;
  }
}

TEST(RocksDamage, a_flipped_byte_is_refused_and_nothing_else) {
  TempDir dir;
  write_all(dir.path(), true);
  const std::string log = logs_in(dir.path()).front();
  const std::string whole = bytes_of(log);
  Prng prng(test_seed());
  for (int i = 0; i < 24; ++i) {
    std::string flipped = whole;
    const size_t at = below(prng, whole.size() - 200);
    flipped[at] = static_cast<char>(~flipped[at]);
    write_bytes(log, flipped);
    EXPECT_EQ(refused_for_its_log(dir.path()), 0) << at;
  }
  write_bytes(log, whole);
  EXPECT_EQ(prefix_kept(options_in(dir.path(), Durability::kSync)), kWrites);
}

TEST(RocksDamage, a_record_that_was_cut_off_by_a_crash_is_left_out) {
  TempDir dir;
  write_all(dir.path(), true);
  const std::string log = logs_in(dir.path()).front();
  const std::string whole = bytes_of(log);
  for (const size_t missing : {1u, 5u, 20u}) {
    TempDir copy;
    std::filesystem::copy(dir.path(), copy.path());
    write_bytes(logs_in(copy.path()).front(), whole.substr(0, whole.size() - missing));
    EXPECT_EQ(prefix_kept(options_in(copy.path(), Durability::kSync)), kWrites - 1) << missing;
  }
}

TEST(RocksDamage, a_record_that_was_cut_off_and_filled_up_with_zeros_is_left_out) {
  TempDir dir;
  write_all(dir.path(), true);
  const std::string whole = bytes_of(logs_in(dir.path()).front());
  for (const size_t missing : {5u, 20u}) {
    TempDir copy;
    std::filesystem::copy(dir.path(), copy.path());
    const std::string cut = whole.substr(0, whole.size() - missing);
    write_bytes(logs_in(copy.path()).front(), cut + std::string(4096, '\0'));
    EXPECT_EQ(prefix_kept(options_in(copy.path(), Durability::kSync)), kWrites - 1) << missing;
  }
}

// Of a write that is two records, the first ends its block.
TEST(RocksDamage, a_write_that_was_cut_off_between_its_records_and_filled_up_is_left_out) {
  TempDir dir;
  write_all(dir.path(), true, 600);
  const std::string log = logs_in(dir.path()).front();
  const std::string cut = bytes_of(log).substr(0, 32768);
  write_bytes(log, cut);
  auto torn = check_log(*rocksdb::Env::Default(), log);
  ASSERT_TRUE(torn.ok() && torn->state == LogState::kTorn && torn->offset + 7 < cut.size());
  TempDir copy;
  std::filesystem::copy(dir.path(), copy.path());
  const int kept = prefix_kept(options_in(copy.path(), Durability::kSync));
  write_bytes(log, cut + std::string(4096, '\0'));
  EXPECT_EQ(prefix_kept(options_in(dir.path(), Durability::kSync)), kept);
  EXPECT_TRUE(kept > 0 && kept < kWrites) << kept;
}

TEST(RocksDamage, a_log_that_is_gone_is_refused) {
  for (const bool died : {true, false}) {
    TempDir dir;
    write_all(dir.path(), died);
    for (const std::string& log : logs_in(dir.path())) std::filesystem::remove(log);
    EXPECT_EQ(refused_for_its_log(dir.path()), 0);
    EngineOptions options = options_in(dir.path(), Durability::kSync);
    options.recover = true;
    EXPECT_EQ(prefix_kept(options), 0);
    EXPECT_EQ(prefix_kept(options_in(dir.path(), Durability::kSync)), 0);
  }
}

TEST(RocksDamage, after_a_clean_stop_a_shorter_log_is_refused) {
  TempDir dir;
  write_all(dir.path(), false);
  const std::string log = logs_in(dir.path()).front();
  const std::string whole = bytes_of(log);
  Prng prng(test_seed());
  for (int i = 0; i < 8; ++i) {
    write_bytes(log, whole.substr(0, below(prng, whole.size())));
    EXPECT_EQ(refused_for_its_log(dir.path()), 0);
  }
}

TEST(RocksDamage, recovery_keeps_all_writes_before_the_damage_and_a_copy_of_the_log) {
  TempDir dir;
  write_all(dir.path(), true);
  const std::string log = logs_in(dir.path()).front();
  std::string bytes = bytes_of(log);
  const std::string damaged = bytes.replace(bytes.size() / 2, 2, "\xff\xff");
  write_bytes(log, damaged);
  EngineOptions options = options_in(dir.path(), Durability::kSync);
  options.recover = true;
  const int kept = prefix_kept(options);
  EXPECT_GT(kept, kWrites / 3);
  EXPECT_LT(kept, kWrites * 2 / 3);
  EXPECT_EQ(bytes_of(log + ".damaged"), damaged);
  EXPECT_EQ(prefix_kept(options_in(dir.path(), Durability::kSync)), kept);
}

TEST(RocksDamage, recovery_goes_on_without_the_first_sector_of_the_log) {
  TempDir dir;
  write_all(dir.path(), true);
  const std::string log = logs_in(dir.path()).front();
  std::string bytes = bytes_of(log);
  write_bytes(log, bytes.replace(0, 512, 512, '\0'));
  EXPECT_EQ(refused_for_its_log(dir.path()), 0);
  EngineOptions options = options_in(dir.path(), Durability::kSync);
  options.recover = true;
  EXPECT_EQ(prefix_kept(options), 0);
  EXPECT_EQ(prefix_kept(options_in(dir.path(), Durability::kSync)), 0);
}

TEST(RocksDamage, recovery_of_what_is_whole_loses_nothing) {
  TempDir dir;
  write_all(dir.path(), true);
  EngineOptions options = options_in(dir.path(), Durability::kSync);
  options.recover = true;
  EXPECT_EQ(prefix_kept(options), kWrites);
  EXPECT_EQ(prefix_kept(options_in(dir.path(), Durability::kSync)), kWrites);
}

// Follows the first table of data that is written after begin(), on its way into the manifest.
class WatchedFiles final : public rocksdb::FileSystemWrapper {
 public:
  enum Stage { kNotYet, kBegun, kTableWritten, kTableListed };

  // The table goes no further than to `last`.
  explicit WatchedFiles(Stage last)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), last_(last) {}

  void begin() {
    const std::lock_guard guard(lock_);
    stage_ = kBegun;
  }
  // False: it does not come so far.
  bool wait() {
    std::unique_lock guard(lock_);
    return changed_.wait_for(guard, std::chrono::seconds(60), [&] { return stage_ == last_; });
  }

  const char* Name() const override { return "WatchedFiles"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* dbg) override {
    const rocksdb::IOStatus status = target()->NewWritableFile(name, options, file, dbg);
    if (status.ok()) *file = std::make_unique<Watched>(*this, name, std::move(*file));
    return status;
  }

 private:
  class Watched final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    Watched(WatchedFiles& files, const std::string& name,
            std::unique_ptr<rocksdb::FSWritableFile> file)
        : FSWritableFileOwnerWrapper(std::move(file)),
          files_(files),
          is_table_(name.ends_with(".sst")),
          is_manifest_(name.find("MANIFEST") != name.npos) {}
    using FSWritableFileOwnerWrapper::Append;
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* dbg) override {
      // A table is listed with its first and its last key, a log that was synced without one.
      const bool has_key = data.ToStringView().find("key:") != std::string_view::npos;
      lists_table_ = lists_table_ || (is_manifest_ && has_key);
      return target()->Append(data, options, dbg);
    }
    rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* dbg) override {
      const rocksdb::IOStatus status = target()->Sync(options, dbg);
      if (is_table_) files_.reach(kTableWritten);
      if (std::exchange(lists_table_, false)) files_.reach(kTableListed);
      return status;
    }

   private:
    WatchedFiles& files_;
    const bool is_table_;
    const bool is_manifest_;
    bool lists_table_ = false;  // from the next sync on
  };

  // The thread that wrote the table stays here if it is to go no further. Who lists it may be a
  // writer, and once it is listed nothing more becomes of it.
  void reach(int stage) {
    {
      const std::lock_guard guard(lock_);
      if (stage_ != stage - 1) return;
      stage_ = stage;
      changed_.notify_all();
    }
    while (stage == last_ && stage == kTableWritten) pause();
  }

  const Stage last_;
  std::mutex lock_;
  std::condition_variable changed_;
  int stage_ = kNotYet;  // guarded by the lock
};

// What the first of two logs has goes to a table, and the log stays for the other families. The
// server dies when the table has come so far, and the first log is damaged in its middle. Returns
// how many writes recovery keeps, and what it says.
int kept_beside_a_table(WatchedFiles::Stage last, std::string& said) {
  TempDir dir;
  EXPECT_EQ(in_child([&] {
    const auto files = std::make_shared<WatchedFiles>(last);
    auto opened = RocksEngine::open(options_in(dir.path(), Durability::kSync),
                                    {files, size_t{64} << 10});
    if (!opened.ok()) return 1;
    files->begin();
    for (int i = 0; i < kWrites; ++i) {
      const std::string value = std::to_string(i) + std::string(400, '.');
      if ((*opened)->set(key_of(i), value) != Outcome::kDone) _exit(2);
    }
    _exit(files->wait() ? 0 : 3);  // the engine cannot close while the table is kept back
  }), 0);
  const auto logs = logs_in(dir.path());
  EXPECT_EQ(logs.size(), 2U);
  std::string bytes = bytes_of(logs.front());
  write_bytes(logs.front(), bytes.replace(bytes.size() / 2, 2, "\xff\xff"));
  EXPECT_EQ(refused_for_its_log(dir.path()), 0);
  EngineOptions options = options_in(dir.path(), Durability::kSync);
  options.recover = true;
  const std::string lines = dir.path() + "/lines";
  const int kept =
      in_child([&] { return log_open(lines).ok() ? prefix_kept(options) : 252; });
  said = bytes_of(lines);
  return kept;
}

TEST(RocksDamage, recovery_leaves_out_a_newer_log_than_the_damaged_one) {
  std::string said;
  const int kept = kept_beside_a_table(WatchedFiles::kTableWritten, said);
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, kWrites / 2);
  EXPECT_EQ(said.find("newer writes were kept"), said.npos) << said;
}

TEST(RocksDamage, recovery_agrees_with_tables_that_are_newer_than_the_damage) {
  std::string said;
  EXPECT_EQ(kept_beside_a_table(WatchedFiles::kTableListed, said), kWrites);
  EXPECT_NE(said.find("newer writes were kept"), said.npos) << said;
}

TEST(RocksDamage, the_newest_of_several_logs_is_missed) {
  TempDir dir;
  write_all(dir.path(), true, 200'000);
  const auto logs = logs_in(dir.path());
  ASSERT_GE(logs.size(), 2U);
  for (const std::string& log : {logs.back(), logs.front()}) {
    const std::string aside = log + ".aside";
    std::filesystem::rename(log, aside);
    const std::string line = [&] {
      int fds[2];
      EXPECT_EQ(pipe(fds), 0);
      in_child([&] {
        const std::string text = refusal_of(options_in(dir.path(), Durability::kSync));
        return write(fds[1], text.data(), text.size()) < 0 ? 1 : 0;
      });
      close(fds[1]);
      char text[1000];
      const ssize_t size = read(fds[0], text, sizeof text);
      close(fds[0]);
      return std::string(text, static_cast<size_t>(std::max<ssize_t>(size, 0)));
    }();
    EXPECT_NE(line.find("is damaged"), line.npos) << log << ": " << line;
    std::filesystem::rename(aside, log);
  }
}

TEST(RocksDamage, recovery_misses_an_older_log_also_where_it_makes_the_pointer_again) {
  TempDir dir;
  write_all(dir.path(), true, 200'000);
  const auto logs = logs_in(dir.path());
  ASSERT_GE(logs.size(), 2U);
  std::filesystem::remove(logs.front());
  std::filesystem::remove(dir.path() + "/CURRENT");
  EngineOptions options = options_in(dir.path(), Durability::kSync);
  options.recover = true;
  const std::string lines = dir.path() + "/lines";
  in_child([&] { return log_open(lines).ok() ? prefix_kept(options) : 252; });
  const std::string said = bytes_of(lines);
  EXPECT_NE(said.find("it is made again"), said.npos) << said;
  EXPECT_NE(said.find("newer writes were kept"), said.npos) << said;
}

// Of each log, the guard's reading succeeds and RocksDB's fails.
class OnceReadableLogs final : public rocksdb::FileSystemWrapper {
 public:
  OnceReadableLogs() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}

  const char* Name() const override { return "OnceReadableLogs"; }
  rocksdb::IOStatus NewSequentialFile(const std::string& name, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* dbg) override {
    if (name.ends_with(".log") && readings_++ > 0) return rocksdb::IOStatus::IOError("no luck");
    return target()->NewSequentialFile(name, options, file, dbg);
  }

 private:
  std::atomic<int> readings_{0};
};

TEST(RocksDamage, recovery_takes_a_disk_that_fails_for_no_damage) {
  TempDir dir;
  write_all(dir.path(), true);
  ASSERT_EQ(logs_in(dir.path()).size(), 1U);
  EngineOptions options = options_in(dir.path(), Durability::kSync);
  options.recover = true;
  EXPECT_EQ(in_child([&] {
    const auto opened = RocksEngine::open(options, {std::make_shared<OnceReadableLogs>()});
    return !opened.ok() && opened.error().find("no luck") != std::string::npos ? 0 : 1;
  }), 0);
  EXPECT_EQ(prefix_kept(options), kWrites);
}

// 40 MB in two or three tables, the largest of 32 MB, and 4 MB of them in a log once more. The
// crash of the first server may come before it has made a table whole; the start of the second one
// makes tables of what is in logs before it serves. It may write one of them anew as soon as it has
// counted the keys, and ends as it should: a crash would leave both, and one of them in no use.
class TablesAndLogs : public ::testing::Test {
 protected:
  static constexpr size_t kPadding = 200'000;

  void SetUp() override {
    write_all(dir_.path(), true, kPadding);
    write_all(dir_.path(), false, kPadding, 20);
    options_.recover = true;
  }

  // The largest file with such a name.
  std::string find(const std::string& part) const {
    std::filesystem::directory_entry largest;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      const std::string name = entry.path().filename().string();
      if (!entry.is_regular_file() || name.find(part) == name.npos) continue;
      if (largest.path().empty() || entry.file_size() > largest.file_size()) largest = entry;
    }
    return largest.path().string();
  }
  // 0 = refused in one line that names the file and --recover, with or without that.
  int refused_for(const std::string& path, bool recover = false) {
    return in_child([&] {
      const std::string name = std::filesystem::path(path).filename().string();
      EngineOptions options = options_;
      options.recover = recover;
      const std::string line = refusal_of(options);
      const bool named = line.find(name) != line.npos && line.find("--recover") != line.npos;
      if (!named) std::fprintf(stderr, "%s\n", line.c_str());
      return named && line.find('\n') == line.npos ? 0 : 1;
    });
  }
  // How many keys can be read. None is missing and none has a wrong value (255), nor does the
  // engine not open.
  int kept() {
    return in_child([&] {
      auto opened = open_rocksdb_engine(options_);
      if (!opened.ok()) {
        std::fprintf(stderr, "%s\n", opened.error().c_str());
        return 255;
      }
      int found = 0;
      for (int i = 0; i < kWrites; ++i) {
        bool right = true;
        const std::string expected = std::to_string(i) + std::string(kPadding, '.');
        const Outcome outcome = (*opened)->get(
            key_of(i), [&](std::string_view value) { right = value == expected; });
        if (outcome == Outcome::kNone || !right) return 255;
        found += outcome == Outcome::kDone ? 1 : 0;
      }
      return found;
    });
  }
  void flip(const std::string& path, size_t at) {
    std::string bytes = bytes_of(path);
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    write_bytes(path, bytes);
  }

  TempDir dir_;
  EngineOptions options_ = options_in(dir_.path(), Durability::kSync);
};

TEST_F(TablesAndLogs, a_folder_without_its_pointer_is_no_new_database) {
  const std::string current = find("CURRENT");
  std::filesystem::remove(current);
  EXPECT_EQ(refused_for(current), 0);
  EXPECT_NE(find(".sst"), "");
  EXPECT_EQ(kept(), kWrites);
}

TEST_F(TablesAndLogs, a_damaged_pointer_to_the_manifest_is_refused) {
  const std::string current = find("CURRENT");
  flip(current, 3);
  EXPECT_EQ(refused_for(current), 0);
  EXPECT_EQ(kept(), kWrites);
}

TEST_F(TablesAndLogs, a_damaged_manifest_is_refused_wherever_the_damage_is) {
  const std::string manifest = find("MANIFEST");
  const std::string whole = bytes_of(manifest);
  Prng prng(test_seed());
  for (int i = 0; i < 12; ++i) {
    // Its last record may also be one that a crash cut off.
    flip(manifest, below(prng, whole.size() - 40));
    EXPECT_EQ(refused_for(manifest), 0) << i;
    write_bytes(manifest, whole);
  }
  flip(manifest, whole.size() / 2);
  EXPECT_EQ(refused_for(manifest, true), 0);
  write_bytes(manifest, whole);
  options_.recover = false;
  EXPECT_EQ(kept(), kWrites);
}

TEST_F(TablesAndLogs, a_missing_manifest_is_refused) {
  const std::string manifest = find("MANIFEST");
  std::filesystem::remove(manifest);
  EXPECT_EQ(refused_for(manifest), 0);
  EXPECT_EQ(refused_for(manifest, true), 0);
}

TEST_F(TablesAndLogs, a_damaged_table_is_refused_and_recovery_reads_the_rest) {
  const std::string table = find(".sst");
  const size_t size = bytes_of(table).size();
  for (const size_t at : {size / 2, size - 1, size_t{100}}) {
    flip(table, at);
    EXPECT_EQ(refused_for(table), 0) << at;
    flip(table, at);
  }
  flip(table, size / 2);
  const int left = kept();
  EXPECT_GT(left, kWrites / 2);
  EXPECT_LT(left, kWrites);
}

TEST_F(TablesAndLogs, a_missing_table_is_refused_and_recovery_reads_the_rest) {
  const std::string table = find(".sst");
  std::filesystem::remove(table);
  EXPECT_EQ(refused_for(table), 0);
  const int left = kept();
  EXPECT_GT(left, 0);
  EXPECT_LT(left, kWrites);
}

}  // namespace
}  // namespace rubato::kv
