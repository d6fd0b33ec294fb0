// SPDX-License-Identifier: Apache-2.0
//
// LevelDB under librubato-pass.so, built and run by bench/pass_leveldb.py, once with LevelDB
// compiled with checkpoints and once without:
//   leveldb FOLDER time        {"get_ns", "scan_us", "sum"}: processor time of a GET, a full scan
//   leveldb FOLDER gaps        the gaps between checkpoints of both, in nanoseconds
//   leveldb FOLDER run get|scan TIMES   nothing; for valgrind
#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <time.h>
#include <x86intrin.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gaps.h"
#include "loops.h"

namespace rubato::loops {
namespace {

constexpr int kKeys = 15'000;
constexpr int kGets = 20'000;
constexpr int kScans = 20;
constexpr int kSamples = 9;

double cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

std::string key_of(uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "user%010" PRIu64, number);
  return text;
}

class Store {
 public:
  explicit Store(const char* folder) {
    leveldb::Options options;
    options.create_if_missing = true;
    cache_.reset(leveldb::NewLRUCache(64 << 20));
    options.block_cache = cache_.get();
    leveldb::DB* opened = nullptr;
    const leveldb::Status status = leveldb::DB::Open(options, folder, &opened);
    if (!status.ok()) {
      std::fprintf(stderr, "leveldb: %s\n", status.ToString().c_str());
      std::exit(1);
    }
    db_.reset(opened);
    for (int i = 0; i < kKeys; ++i) {
      const auto number = static_cast<uint64_t>(i);
      db_->Put({}, key_of(number), std::string(100, static_cast<char>('a' + i % 26)));
    }
    db_->CompactRange(nullptr, nullptr);  // no work in the background while measuring
  }

  uint64_t get_many(int count) {
    Sequence sequence(60);
    uint64_t sum = 0;
    std::string value;
    for (int i = 0; i < count; ++i) {
      if (!db_->Get({}, key_of(sequence.next() % kKeys), &value).ok()) continue;
      sum += value.size() + static_cast<uint64_t>(value[7]);
    }
    return sum;
  }

  uint64_t scan() {
    uint64_t sum = 0;
    const std::unique_ptr<leveldb::Iterator> at(db_->NewIterator({}));
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      sum = mix(sum, static_cast<uint64_t>(at->value()[3]) + at->key().size());
    }
    return sum;
  }

 private:
  std::unique_ptr<leveldb::Cache> cache_;
  std::unique_ptr<leveldb::DB> db_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure_time(Store& store) {
  std::vector<double> gets, scans;
  uint64_t sum = store.get_many(kGets) + store.scan();
  for (int sample = 0; sample < kSamples; ++sample) {
    double start = cpu_ns();
    sum = mix(sum, store.get_many(kGets));
    gets.push_back((cpu_ns() - start) / kGets);
    start = cpu_ns();
    for (int i = 0; i < kScans; ++i) sum = mix(sum, store.scan());
    scans.push_back((cpu_ns() - start) / kScans / 1e3);
  }
  std::printf("{\"get_ns\": %.1f, \"scan_us\": %.1f, \"sum\": %" PRIu64 "}\n", median(gets),
              median(scans), sum);
}

template <class F>
void measure_gaps(const char* name, F&& work) {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t first = __rdtsc();
  work();
  Gaps gaps;
  gaps.start();
  work();
  gaps.stop();
  const double per_ns =
      static_cast<double>(__rdtsc() - first) /
      std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
  const auto ns = [&](uint64_t cycles) { return static_cast<double>(cycles) / per_ns; };
  std::printf("{\"what\": \"%s\", \"count\": %" PRIu64 ", \"stolen\": %" PRIu64 ", \"p50\": %.0f, "
              "\"p99\": %.0f, \"p999\": %.0f, \"max\": %.0f, \"time_p99\": %.0f}\n",
              name, gaps.count(), gaps.stolen(), ns(gaps.quantile(0.5, false)),
              ns(gaps.quantile(0.99, false)), ns(gaps.quantile(0.999, false)), ns(gaps.longest()),
              ns(gaps.quantile(0.99, true)));
}

}  // namespace
}  // namespace rubato::loops

int main(int argc, char** argv) {
  const std::string verb = argc > 2 ? argv[2] : "";
  const bool runs = verb == "run" && argc == 5;
  if (!runs && !(argc == 3 && (verb == "time" || verb == "gaps"))) {
    std::fprintf(stderr, "leveldb: takes FOLDER time, FOLDER gaps or FOLDER run get|scan TIMES\n");
    return 2;
  }
  rubato::loops::Store store(argv[1]);
  if (runs) {
    const int times = std::atoi(argv[4]);
    if (argv[3] == std::string("get")) store.get_many(times);
    for (int i = 0; i < times && argv[3] == std::string("scan"); ++i) store.scan();
  } else if (verb == "time") {
    rubato::loops::measure_time(store);
  } else {
    rubato::loops::measure_gaps("get", [&] { store.get_many(100'000); });
    rubato::loops::measure_gaps("scan", [&] {
      for (int i = 0; i < 100; ++i) store.scan();
    });
  }
  return 0;
}
