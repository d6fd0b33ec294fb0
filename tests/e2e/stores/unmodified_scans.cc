// SPDX-License-Identifier: Apache-2.0
//
// RocksDB 9.9 or later in tasks, by code that knows nothing of checkpoints, with librubato-rocksdb
// linked: short tasks overtake the one call that passes many deleted keys, a cancelled one ends,
// and MultiGet, which may not be left, is right beside them. Prints "ok", else what was wrong.
#include <rocksdb/db.h>
#include <rocksdb/version.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <rubato/rubato.hpp>

namespace {

constexpr int kDeleted = 20'000;
constexpr int kKeys = 500;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("not so: %s\n", what);
  std::exit(1);
}

std::string key_of(int number) { return "key" + std::to_string(1000 + number); }

void fill(rocksdb::DB& db) {
  const rocksdb::WriteOptions write;
  for (int i = 0; i < kDeleted; ++i) {
    const std::string key = "deleted" + std::to_string(i);
    expect(db.Put(write, key, "value").ok() && db.Delete(write, key).ok(), "keys are deleted");
  }
  for (int i = 0; i < kKeys; ++i) expect(db.Put(write, key_of(i), "value").ok(), "keys are put");
}

rocksdb::Status scan(rocksdb::DB& db, int& found) {
  found = 0;
  const std::unique_ptr<rocksdb::Iterator> it(db.NewIterator(rocksdb::ReadOptions()));
  for (it->SeekToFirst(); it->Valid(); it->Next()) ++found;
  return it->status();
}

bool multi_get(rocksdb::DB& db) {
  std::vector<std::string> names;
  for (int i = 0; i < kKeys; ++i) names.push_back(key_of(i));
  const std::vector<rocksdb::Slice> keys(names.begin(), names.end());
  std::vector<std::string> values;
  for (const auto& status : db.MultiGet(rocksdb::ReadOptions(), keys, &values)) {
    if (!status.ok()) return false;
  }
  return values[0] == "value" && values[kKeys - 1] == "value";
}

}  // namespace

int main(int, char** argv) {
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* opened = nullptr;
  expect(rocksdb::DB::Open(options, argv[1], &opened).ok(), "the store opens");
  const std::unique_ptr<rocksdb::DB> db(opened);
  fill(*db);

  rubato::ExecutorOptions settings;
  settings.scheduler.workers = 1;
  auto executor = rubato::Executor::create(settings);
  expect(executor.ok(), "there is an executor");
  constexpr int kShort = 200;
  std::atomic<int> ran{0};
  std::future<void> scans = executor->submit([&] {
    int found = 0;
    do {
      expect(scan(*db, found).ok() && found == kKeys, "a scan finds every key");
    } while (ran < kShort);
  });
  for (int i = 0; i < kShort; ++i) {
    executor->submit([&] { expect(multi_get(*db), "MultiGet finds its keys"), ++ran; }).get();
  }
  scans.get();
  expect(executor->stats().preemptions > 0, "scans are preempted");

  const rubato::Cancellation cancellation;
  std::atomic<bool> started{false};
  std::future<bool> cancelled = executor->submit(
      [&] {
        int found = 0;
        rocksdb::Status status;
        for (; status.ok(); started = true) status = scan(*db, found);
        return status.IsAborted() && found < kKeys;
      },
      {.cancellation = cancellation});
  while (!started) continue;
  cancellation.cancel();
  expect(cancelled.get(), "a cancelled scan is aborted");
  std::printf("ok, RocksDB %d.%d, %llu preemptions\n", ROCKSDB_MAJOR, ROCKSDB_MINOR,
              static_cast<unsigned long long>(executor->stats().preemptions));
}
