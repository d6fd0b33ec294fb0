// SPDX-License-Identifier: Apache-2.0
#include <leveldb/db.h>
#include <leveldb/write_batch.h>
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <atomic>
#include <cstdio>
#include <memory>

#include "tests/torture/workload.h"

namespace torture {
namespace {

constexpr uint64_t kKeys = 2000;  // those that are only read

std::unique_ptr<rocksdb::DB> g_rocks;
std::unique_ptr<leveldb::DB> g_level;
std::atomic<uint64_t> g_runs{0};

std::string key_of(uint64_t number) {
  char key[32];
  snprintf(key, sizeof(key), "fixed%08lu", static_cast<unsigned long>(number));
  return key;
}

// Of one run, whoever else has the same seed.
std::string own_key(uint64_t run, uint64_t number) {
  char key[48];
  snprintf(key, sizeof(key), "own%016lx%04lu", static_cast<unsigned long>(run),
           static_cast<unsigned long>(number));
  return key;
}

std::string value_of(uint64_t number) {
  Random random(number);
  std::string value(20 + random.below(200), 'x');
  for (char& c : value) c = static_cast<char>('a' + random.below(26));
  return value;
}

template <class Store, class Options>
std::string fill(Store& store, const Options& options) {
  for (uint64_t i = 0; i < kKeys; ++i) {
    const auto status = store.Put(options, key_of(i), value_of(i));
    if (!status.ok()) return status.ToString();
  }
  return "";
}

// Reads, scans, writes and deletes; the written keys are this run's own, and gone at its end.
template <class Store, class Iterator, class Batch, class Read, class Write>
uint64_t use(Store& store, const Read& read, const Write& write, uint64_t seed) {
  Random random(seed);
  Sum sum;
  std::string value;
  const uint64_t run = g_runs.fetch_add(1);
  for (int i = 0; i < 12; ++i) {
    const uint64_t key = random.below(kKeys);
    sum.add(store.Get(read, key_of(key), &value).ToString());
    sum.add(value);
    sum.add(store.Get(read, "absent" + std::to_string(key), &value).IsNotFound() ? 1 : 0);
  }
  Batch batch;
  for (uint64_t i = 0; i < 4; ++i) batch.Put(own_key(run, i), value_of(random.next()));
  sum.add(store.Write(write, &batch).ToString());
  sum.add(store.Put(write, own_key(run, 4), value_of(random.next())).ToString());
  {
    const std::unique_ptr<Iterator> iterator(store.NewIterator(read));
    int seen = 0;
    for (iterator->Seek(key_of(random.below(kKeys - 100))); iterator->Valid() && seen < 80;
         iterator->Next(), ++seen) {
      sum.add(iterator->key().ToString());
      sum.add(iterator->value().ToString());
    }
    sum.add(iterator->status().ToString());
  }
  for (uint64_t i = 0; i < 5; ++i) {
    sum.add(store.Get(read, own_key(run, i), &value).ToString());
    sum.add(value);
    sum.add(store.Delete(write, own_key(run, i)).ToString());
    sum.add(store.Get(read, own_key(run, i), &value).IsNotFound() ? 1 : 0);
  }
  return sum.value();
}

}  // namespace

std::string prepare_stores(const std::string& folder) {
  rocksdb::Options rocks_options;
  rocks_options.create_if_missing = true;
  rocks_options.write_buffer_size = size_t{1} << 20;  // so that flushes and compactions happen
  rocksdb::DB* rocks = nullptr;
  const auto rocks_status = rocksdb::DB::Open(rocks_options, folder + "/rocks", &rocks);
  if (!rocks_status.ok()) return rocks_status.ToString();
  g_rocks.reset(rocks);

  leveldb::Options level_options;
  level_options.create_if_missing = true;
  level_options.write_buffer_size = size_t{1} << 20;
  leveldb::DB* level = nullptr;
  const auto level_status = leveldb::DB::Open(level_options, folder + "/level", &level);
  if (!level_status.ok()) return level_status.ToString();
  g_level.reset(level);

  const std::string trouble = fill(*g_rocks, rocksdb::WriteOptions());
  return trouble.empty() ? fill(*g_level, leveldb::WriteOptions()) : trouble;
}

void close_stores() {
  g_rocks.reset();
  g_level.reset();
}

uint64_t rocksdb(uint64_t seed) {
  return use<rocksdb::DB, rocksdb::Iterator, rocksdb::WriteBatch>(
      *g_rocks, rocksdb::ReadOptions(), rocksdb::WriteOptions(), seed);
}

uint64_t leveldb(uint64_t seed) {
  return use<leveldb::DB, leveldb::Iterator, leveldb::WriteBatch>(
      *g_level, leveldb::ReadOptions(), leveldb::WriteOptions(), seed);
}

}  // namespace torture
