// SPDX-License-Identifier: Apache-2.0
//
// Cost of one command inside the engine: get hit, overwrite, new key, one item of a range or scan.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/prng.h"
#include "kv_server/engine/engine.h"

namespace rubato::kv {
namespace {

constexpr size_t kValueBytes = 32;

std::vector<std::string> shuffled_keys(size_t count) {
  std::vector<std::string> keys(count);
  for (size_t i = 0; i < count; ++i) {
    char text[32];
    std::snprintf(text, sizeof text, "key:%012zu", i);
    keys[i] = text;
  }
  Prng prng(1);
  for (size_t i = count; i > 1; --i) std::swap(keys[i - 1], keys[prng.below(uint32_t(i))]);
  return keys;
}

std::unique_ptr<Engine> memory_engine() {
  return std::move(open_memory_engine({}).value());
}

std::unique_ptr<Engine> filled(const std::vector<std::string>& keys) {
  auto engine = memory_engine();
  const std::string value(kValueBytes, 'v');
  for (const std::string& key : keys) engine->set(key, value);
  return engine;
}

void get_hit(benchmark::State& state) {
  const auto keys = shuffled_keys(static_cast<size_t>(state.range(0)));
  const auto engine = filled(keys);
  char reply[kValueBytes];
  size_t i = 0;
  for (auto _ : state) {
    engine->get(keys[i], [&](std::string_view value) {
      std::memcpy(reply, value.data(), value.size());
    });
    benchmark::DoNotOptimize(reply);
    if (++i == keys.size()) i = 0;
  }
}
BENCHMARK(get_hit)->Arg(1)->Arg(10'000)->Arg(1'000'000);

void set_overwrite(benchmark::State& state) {
  const auto keys = shuffled_keys(static_cast<size_t>(state.range(0)));
  const auto engine = filled(keys);
  const std::string value(kValueBytes, 'w');
  size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(engine->set(keys[i], value));
    if (++i == keys.size()) i = 0;
  }
}
BENCHMARK(set_overwrite)->Arg(1)->Arg(10'000)->Arg(1'000'000);

void increment(benchmark::State& state) {
  const auto engine = memory_engine();
  int64_t number = 0;
  char text[24];
  for (auto _ : state) {
    engine->update("counter", [&](const Current& now) {
      const int size = std::snprintf(text, sizeof text, "%ld", ++number);
      return Change::put({text, static_cast<size_t>(size)}, now.expires_at_ms);
    });
  }
}
BENCHMARK(increment);

void set_new(benchmark::State& state) {
  const auto keys = shuffled_keys(static_cast<size_t>(state.range(0)));
  const std::string value(kValueBytes, 'v');
  for (auto _ : state) {
    state.PauseTiming();
    auto engine = memory_engine();
    state.ResumeTiming();
    for (const std::string& key : keys) engine->set(key, value);
    state.PauseTiming();
    engine.reset();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(set_new)->Arg(10'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void range_items(benchmark::State& state) {
  const auto engine = filled(shuffled_keys(static_cast<size_t>(state.range(0))));
  uint64_t bytes = 0;
  for (auto _ : state) {
    engine->range({"key:", std::nullopt}, UINT64_MAX, [&](std::string_view k, std::string_view v) {
      bytes += k.size() + v.size();
      return true;
    });
  }
  benchmark::DoNotOptimize(bytes);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(range_items)->Arg(10'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void scan_items(benchmark::State& state) {
  const auto engine = filled(shuffled_keys(static_cast<size_t>(state.range(0))));
  uint64_t seen = 0;
  for (auto _ : state) {
    uint64_t cursor = 0;
    do {
      engine->scan(cursor, 100, [&](std::string_view) { return ++seen > 0; });
    } while (cursor != 0);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(scan_items)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

// One engine on the disk for all iterations, in a folder that is removed.
class RocksFolder {
 public:
  explicit RocksFolder(Durability durability) {
    std::string pattern = (std::filesystem::temp_directory_path() / "rubato-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) return;
    dir_ = pattern;
    EngineOptions options;
    options.dir = dir_;
    options.durability = durability;
    engine = std::move(open_rocksdb_engine(options).value());
  }
  ~RocksFolder() {
    engine.reset();
    std::filesystem::remove_all(dir_);
  }
  std::unique_ptr<Engine> engine;

 private:
  std::string dir_;
};

void rocksdb_set(benchmark::State& state) {
  RocksFolder folder(state.range(0) != 0 ? Durability::kSync : Durability::kAsync);
  const auto keys = shuffled_keys(10'000);
  const std::string value(kValueBytes, 'v');
  size_t i = 0;
  for (auto _ : state) {
    folder.engine->set(keys[i], value);
    if (++i == keys.size()) i = 0;
  }
}
BENCHMARK(rocksdb_set)->ArgName("sync")->Arg(0)->Arg(1);

void rocksdb_get(benchmark::State& state) {
  RocksFolder folder(Durability::kAsync);
  const auto keys = shuffled_keys(10'000);
  for (const std::string& key : keys) folder.engine->set(key, key);
  size_t i = 0;
  for (auto _ : state) {
    folder.engine->get(keys[i], [](std::string_view v) { benchmark::DoNotOptimize(v.data()); });
    if (++i == keys.size()) i = 0;
  }
}
BENCHMARK(rocksdb_get);

}  // namespace
}  // namespace rubato::kv
