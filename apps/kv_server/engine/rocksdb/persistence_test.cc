// SPDX-License-Identifier: Apache-2.0
//
// The data that the rocksdb engine keeps over restarts and crashes, and its refusals to open.
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/prng.h"
#include "kv_server/engine/rocksdb/testing.h"

namespace rubato::kv {
namespace {

using namespace testing;

// Written by the child after each acknowledged write, read by the parent after its death.
struct Progress {
  std::atomic<uint64_t> acknowledged{0};
};

class SharedProgress {
 public:
  SharedProgress()
      : memory_(mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        progress_(new (memory_) Progress) {}
  ~SharedProgress() { munmap(memory_, sizeof(Progress)); }
  Progress* operator->() { return progress_; }

 private:
  void* memory_;
  Progress* progress_;
};

constexpr uint64_t kKeys = 50;  // write number n goes to key n % kKeys

int write_forever(const std::string& dir, Durability durability, SharedProgress& progress) {
  const auto engine = open_in(dir, durability);
  for (uint64_t n = progress->acknowledged + 1;; ++n) {
    const std::string number = std::to_string(n);
    const std::string key = "k" + std::to_string(n % kKeys);
    const std::string twin = "twin:" + key;
    const KeyValue both[] = {{key, number}, {twin, number}};
    if (engine->set_many(both, false) != Outcome::kDone) return 1;
    progress->acknowledged.store(n);
  }
}

// 0 = every key holds its last acknowledged number or a later one, and so does its twin.
int verify(const std::string& dir, uint64_t acknowledged) {
  const auto engine = open_in(dir, Durability::kSync);
  const auto number_of = [&](const std::string& key) {
    uint64_t number = 0;
    engine->get(key, [&](std::string_view v) { number = std::stoull(std::string(v)); });
    return number;
  };
  uint64_t present = 0;
  for (uint64_t k = 0; k < kKeys; ++k) {
    const uint64_t behind = (acknowledged + kKeys - k) % kKeys;
    const uint64_t expected = behind <= acknowledged ? acknowledged - behind : 0;
    const std::string key = "k" + std::to_string(k);
    const uint64_t found = number_of(key);
    if (found < expected || found != number_of("twin:" + key)) return 10;
    present += found > 0 ? 2 : 0;
  }
  while (!engine->stats().keys_exact) usleep(100);
  return engine->size() == present ? 0 : 11;
}

void crash_rounds(Durability durability, int rounds) {
  SCOPED_TRACE("RUBATO_SEED=" + std::to_string(test_seed()));
  TempDir dir;
  SharedProgress progress;
  Prng prng(test_seed());
  for (int round = 0; round < rounds; ++round) {
    const pid_t writer = start([&] { return write_forever(dir.path(), durability, progress); });
    const uint64_t kill_at = progress->acknowledged + 1 + prng.below(120);
    int status = 0;
    while (progress->acknowledged < kill_at && waitpid(writer, &status, WNOHANG) == 0) usleep(100);
    kill(writer, SIGKILL);
    ASSERT_EQ(finish(writer), -SIGKILL);
    const uint64_t acknowledged = progress->acknowledged;
    ASSERT_EQ(in_child([&] { return verify(dir.path(), acknowledged); }), 0) << "round " << round;
  }
}

TEST(RocksPersistence, kill_9_loses_no_acknowledged_write_with_sync) {
  crash_rounds(Durability::kSync, 5);
}

TEST(RocksPersistence, kill_9_loses_no_acknowledged_write_with_async) {
  crash_rounds(Durability::kAsync, 3);
}

TEST(RocksPersistence, keys_expiries_and_counts_survive_a_clean_restart) {
  TempDir dir;
  EXPECT_EQ(in_child([&] {
    const auto engine = open_in(dir.path(), Durability::kAsync);
    SetOptions late;
    late.expires_at_ms = system_clock().now_ms() + 1'000'000;
    engine->set("a", "1", late);
    engine->set("b", "2");
    return 0;
  }), 0);
  EXPECT_EQ(in_child([&] {
    const auto engine = open_in(dir.path(), Durability::kAsync);
    const EngineStats stats = engine->stats();
    Info info;
    const bool whole = stats.keys_exact && stats.keys == 2 && stats.volatile_keys == 1 &&
                       engine->info("a", info) == Outcome::kDone && info.expires_at_ms > 0;
    return whole ? 0 : 1;
  }), 0);
}

std::string refusal(const std::string& dir) {
  return refusal_of(options_in(dir, Durability::kSync));
}

TEST(RocksPersistence, what_cannot_be_opened_is_refused_in_one_line) {
  EXPECT_EQ(in_child([] { return refusal("").find("--dir") != std::string::npos ? 0 : 1; }), 0);
  EXPECT_EQ(in_child([] {
    return refusal("/nonexistent/deep/dir").find("No such file") != std::string::npos ? 0 : 1;
  }), 0);
  TempDir file_dir;
  EXPECT_EQ(in_child([&] {
    std::ofstream(file_dir.path() + "/file") << "text";
    return refusal(file_dir.path() + "/file").find("ot a directory") != std::string::npos ? 0 : 1;
  }), 0);
  TempDir locked;
  EXPECT_EQ(in_child([&] {
    const auto engine = open_in(locked.path(), Durability::kAsync);
    const std::string line = refusal(locked.path());
    return line.find("in use") != std::string::npos && line.find('\n') == line.npos ? 0 : 1;
  }), 0);
  EXPECT_EQ(in_child([&] {
    std::ofstream(locked.path() + "/CURRENT") << "MANIFEST-999999\n";
    const std::string line = refusal(locked.path());
    return !line.empty() && line.find('\n') == line.npos ? 0 : 1;
  }), 0);
}

// Writes until the storage refuses; 0 = it did, as it should.
int fill_up(Engine& engine) {
  if (engine.set("before", "1") != Outcome::kDone) return 1;
  Outcome outcome = Outcome::kDone;
  const std::string value(100'000, 'v');
  for (int i = 0; i < 400 && outcome == Outcome::kDone; ++i) {
    outcome = engine.set("k" + std::to_string(i), value);
  }
  if (outcome != Outcome::kFailed || engine.error().empty()) return 2;
  return engine.get("before", [](std::string_view) {}) == Outcome::kDone ? 0 : 3;
}

// EFBIG stands for a broken disk: RocksDB takes no more writes then until it is opened again.
TEST(RocksPersistence, a_failed_write_is_reported_and_reads_go_on) {
  TempDir dir;
  EXPECT_EQ(in_child([&] {
    const auto engine = open_in(dir.path(), Durability::kSync);
    std::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit{1 << 20, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    return fill_up(*engine);
  }), 0);
  EXPECT_EQ(in_child([&] {
    const auto engine = open_in(dir.path(), Durability::kSync);
    if (engine->get("before", [](std::string_view) {}) != Outcome::kDone) return 1;
    return engine->set("after", "1") == Outcome::kDone ? 0 : 2;
  }), 0);
}

// A small file system of the child's own. 77 = this machine does not let us mount one.
int on_a_small_disk(const std::string& dir, const std::function<int()>& body) {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 77;
  mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  if (mount("tmpfs", dir.c_str(), "tmpfs", 0, "size=100m") != 0) return 77;
  return body();
}

// RocksDB wants as much room as one of its write buffers (32 MB) before it believes in it.
TEST(RocksPersistence, writes_go_on_when_a_full_disk_has_room_again) {
  TempDir dir;
  const int result = in_child([&] {
    return on_a_small_disk(dir.path(), [&] {
      const std::string ballast = dir.path() + "/ballast";
      std::ofstream(ballast) << std::string(80 << 20, 'b');
      const auto engine = open_in(dir.path() + "/db", Durability::kSync);
      const int filled = fill_up(*engine);
      if (filled != 0) return filled;
      std::filesystem::remove(ballast);
      for (int i = 0; i < 1500; ++i) {
        engine->expire_some(1);
        if (engine->set("after", "1") == Outcome::kDone) return 0;
        usleep(20'000);
      }
      std::fprintf(stderr, "%s\n", engine->error().c_str());
      return 4;
    });
  });
  if (result == 77) GTEST_SKIP() << "no small file system without the right to mount";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace rubato::kv
