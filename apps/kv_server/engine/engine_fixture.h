// SPDX-License-Identifier: Apache-2.0
//
// For the tests of the engines: each engine by name, in a directory of its own, with a clock that
// the test turns and a checkpoint that the test listens to. One test thread owns a fixture.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kv_server/engine/engine.h"

namespace rubato::kv {

class TurnedClock final : public Clock {
 public:
  int64_t now_ms() override { return now_.load(std::memory_order_relaxed); }
  void advance(int64_t ms) { now_.fetch_add(ms, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> now_{1'700'000'000'000};
};

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rubato-kv-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The function that the engine under test calls at a checkpoint; may be empty.
inline std::function<void()>& at_checkpoint() {
  static std::function<void()> action;
  return action;
}

class EngineTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { open(); }
  void TearDown() override {
    at_checkpoint() = nullptr;
    engine_.reset();
  }

  bool persistent() const { return std::string_view(GetParam()) == "rocksdb"; }

  void open(uint64_t maxmemory_bytes = 0) {
    engine_.reset();
    EngineOptions options;
    options.clock = &clock_;
    options.checkpoint = [] {
      if (at_checkpoint()) at_checkpoint()();
      return false;
    };
    options.hash_seed = hash_seed_;
    options.maxmemory_bytes = maxmemory_bytes;
    options.dir = dir_.path();
    options.durability = Durability::kAsync;
    auto opened = persistent() ? open_rocksdb_engine(options) : open_memory_engine(options);
    ASSERT_TRUE(opened.ok()) << opened.error();
    engine_ = std::move(opened.value());
  }

  std::optional<std::string> get(std::string_view key) {
    std::string value;
    const Outcome outcome = engine_->get(key, [&](std::string_view v) { value = v; });
    return outcome == Outcome::kDone ? std::optional(value) : std::nullopt;
  }
  Outcome set_with_expiry(std::string_view key, std::string_view value, int64_t in_ms) {
    SetOptions options;
    options.expires_at_ms = clock_.now_ms() + in_ms;
    return engine_->set(key, value, options);
  }
  std::vector<std::string> keys(const KeyRange& range = {}) {
    std::vector<std::string> found;
    EXPECT_EQ(engine_->keys(range, [&](std::string_view key) {
      found.emplace_back(key);
      return true;
    }), Outcome::kDone);
    return found;
  }
  std::map<std::string, std::string> items(const KeyRange& range = {},
                                           uint64_t limit = UINT64_MAX) {
    std::map<std::string, std::string> found;
    EXPECT_EQ(engine_->range(range, limit, [&](std::string_view key, std::string_view value) {
      EXPECT_TRUE(found.emplace(key, value).second);
      return true;
    }), Outcome::kDone);
    return found;
  }
  std::vector<std::string> scan_all(size_t count, const std::function<void()>& between = {}) {
    std::vector<std::string> found;
    uint64_t cursor = 0;
    do {
      EXPECT_EQ(engine_->scan(cursor, count, [&](std::string_view key) {
        found.emplace_back(key);
        return true;
      }), Outcome::kDone);
      if (between) between();
    } while (cursor != 0);
    return found;
  }

  TempDir dir_;
  TurnedClock clock_;
  uint64_t hash_seed_ = 42;
  std::unique_ptr<Engine> engine_;
};

inline uint64_t test_seed() {
  const char* const text = std::getenv("RUBATO_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 0x5eed0001u;
}

inline std::string engine_name(const ::testing::TestParamInfo<const char*>& info) {
  return info.param;
}

}  // namespace rubato::kv
