// SPDX-License-Identifier: Apache-2.0
//
// GETs and scans of RocksDB and LevelDB in tasks: the executor beside a plain pool with as many
// threads, in turns. 1 % of the requests are scans, as long as take 5 ms.
//
//   beside      an open loop at half load: the latency of a GET from the time it was due to its end
//   throughput  requests as fast as one thread submits them, 512 underway
//
//   executor_stores [--rounds N] [--seconds S] [--workers N] [--policy NAME]
//
// Prints for each store and pool the median of the rounds and their range. The iterators are
// rubato::StoreIterators in both pools; only tasks heed their checkpoints.
#include <leveldb/db.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <rubato/rubato.hpp>
#include <rubato/store_iterator.hpp>

#include "base/prng.h"
#include "plain_pools.h"
#include "pool_figures.h"

namespace {

using namespace rubato::bench;
using std::chrono::nanoseconds;

constexpr uint32_t kKeys = 100'000;
constexpr nanoseconds kScan{5'000'000};
constexpr double kScanShare = 0.01;

class Store {
 public:
  virtual ~Store() = default;
  virtual void get(uint32_t key) = 0;
  virtual void scan(uint32_t keys) = 0;

  static std::string key_of(uint32_t number) { return "key" + std::to_string(1'000'000 + number); }
};

template <class Db, class Options, class Read, class Write>
class StoreOf final : public Store {
 public:
  explicit StoreOf(const std::filesystem::path& folder) {
    Options options;
    options.create_if_missing = true;
    Db* db = nullptr;
    if (!Db::Open(options, folder.string(), &db).ok()) std::exit(1);
    db_.reset(db);
    for (uint32_t i = 0; i < kKeys; ++i) db_->Put(Write(), key_of(i), std::string(100, 'v'));
  }
  void get(uint32_t key) override {
    std::string value;
    if (!db_->Get(Read(), key_of(key), &value).ok()) std::abort();
  }
  void scan(uint32_t keys) override {
    rubato::StoreIterator it(db_->NewIterator(Read()));
    it.SeekToFirst();
    for (uint32_t i = 1; i < keys && it.Valid(); ++i) it.Next();
  }

 private:
  std::unique_ptr<Db> db_;
};
using Rocks = StoreOf<rocksdb::DB, rocksdb::Options, rocksdb::ReadOptions, rocksdb::WriteOptions>;
using Level = StoreOf<leveldb::DB, leveldb::Options, leveldb::ReadOptions, leveldb::WriteOptions>;

struct Query {
  Store* store;
  uint32_t key;        // of a GET
  uint32_t scan_keys;  // 0 = a GET
  Clock::time_point due;
  nanoseconds* latency;
  std::atomic<int64_t>* underway;

  void run() const {
    if (scan_keys > 0) store->scan(scan_keys);
    else store->get(key);
    if (latency != nullptr) *latency = Clock::now() - due;
    underway->fetch_sub(1, std::memory_order_release);
  }
};

// What the store's requests take, and how many keys a scan passes in kScan.
struct Costs {
  explicit Costs(Store& store) {
    constexpr uint32_t kGets = 20'000;
    store.scan(kKeys);  // into the caches
    Clock::time_point begin = Clock::now();
    store.scan(kKeys);
    const double key_ns = static_cast<double>((Clock::now() - begin).count()) / kKeys;
    scan_keys = static_cast<uint32_t>(static_cast<double>(kScan.count()) / key_ns);
    begin = Clock::now();
    for (uint32_t i = 0; i < kGets; ++i) store.get(i * 7919 % kKeys);
    const double get_ns = static_cast<double>((Clock::now() - begin).count()) / kGets;
    mean_ns = kScanShare * static_cast<double>(kScan.count()) + (1 - kScanShare) * get_ns;
  }

  uint32_t scan_keys;
  double mean_ns;
};

class Run {
 public:
  Run(Store& store, const Costs& costs, PoolOf<Query>& pool, const Settings& settings)
      : store_(store), costs_(costs), pool_(pool), settings_(settings) {}

  double throughput() {
    constexpr int64_t kUnderway = 512;
    const auto begin = Clock::now();
    uint64_t submitted = 0;
    for (; Clock::now() - begin < std::chrono::duration<double>(settings_.seconds); ++submitted) {
      wait_until_below(underway_, kUnderway);
      submit(draw(begin, nullptr));
    }
    wait_until_below(underway_, 1);
    const std::chrono::duration<double> took = Clock::now() - begin;
    return static_cast<double>(submitted) / took.count();
  }

  // Of the GETs, sorted.
  std::vector<nanoseconds> latencies() {
    const double gap_ns = costs_.mean_ns / (0.5 * settings_.workers);
    std::vector<nanoseconds> latencies(static_cast<size_t>(settings_.seconds * 1e9 / gap_ns),
                                       nanoseconds(-1));
    Clock::time_point due = Clock::now();
    for (nanoseconds& latency : latencies) {
      due += nanoseconds(static_cast<int64_t>(-std::log(1 - dice_.uniform()) * gap_ns));
      while (Clock::now() < due) continue;
      submit(draw(due, &latency));
    }
    wait_until_below(underway_, 1);
    std::erase(latencies, nanoseconds(-1));
    std::sort(latencies.begin(), latencies.end());
    return latencies;
  }

 private:
  Query draw(Clock::time_point due, nanoseconds* latency) {
    const bool scans = dice_.uniform() < kScanShare;
    const auto key = static_cast<uint32_t>(dice_.uniform() * kKeys);
    return {&store_, key, scans ? costs_.scan_keys : 0, due, scans ? nullptr : latency, &underway_};
  }
  void submit(const Query& query) {
    underway_.fetch_add(1, std::memory_order_relaxed);
    pool_.submit(query);
  }

  Store& store_;
  const Costs& costs_;
  PoolOf<Query>& pool_;
  const Settings& settings_;
  rubato::Prng dice_{1};
  std::atomic<int64_t> underway_{0};
};

struct Figures {
  std::vector<double> per_second, p50_us, p99_us;
};

void measure(const char* name, Store& store, const Settings& settings) {
  const Costs costs(store);
  std::array<Figures, 2> figures;
  for (int round = 0; round < settings.rounds; ++round) {
    for (size_t i = 0; i < figures.size(); ++i) {
      std::unique_ptr<PoolOf<Query>> pool;
      if (i == 0) pool = std::make_unique<RubatoPool<Query>>(settings);
      else pool = std::make_unique<MutexPool<Query>>(settings);
      Run run(store, costs, *pool, settings);
      const auto latencies = run.latencies();
      figures[i].p50_us.push_back(percentile_us(latencies, 0.5));
      figures[i].p99_us.push_back(percentile_us(latencies, 0.99));
      figures[i].per_second.push_back(run.throughput());
    }
  }
  for (size_t i = 0; i < figures.size(); ++i) {
    std::printf("%-8s %-7s", name, i == 0 ? "rubato" : "mutex");
    print("GET p50/us", figures[i].p50_us);
    print("p99", figures[i].p99_us);
    print("requests/s", figures[i].per_second);
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (!read(argc, argv, settings)) return 2;
  std::string folder = (std::filesystem::temp_directory_path() / "executor-stores-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  {
    Rocks store(std::filesystem::path(folder) / "rocksdb");
    measure("rocksdb", store, settings);
  }
  {
    Level store(std::filesystem::path(folder) / "leveldb");
    measure("leveldb", store, settings);
  }
  std::filesystem::remove_all(folder);
}
