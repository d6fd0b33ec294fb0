// SPDX-License-Identifier: Apache-2.0
//
// Scans of the real stores, whose iterators are wrapped: results, order, short tasks in between,
// cancellation.
#include <gtest/gtest.h>
#include <leveldb/db.h>
#include <rocksdb/db.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <string>

#include <rubato/rubato.hpp>
#include <rubato/store_iterator.hpp>

namespace {

// A store of either kind in a folder of its own, with the keys 0100 .. 0199.
template <class Db, class Options, class Read, class Write>
class Store {
 public:
  Store() : folder_(std::filesystem::temp_directory_path() / ("rubato-store-XXXXXX")) {
    std::string name = folder_.string();
    folder_ = ::mkdtemp(name.data());
    Options options;
    options.create_if_missing = true;
    Db* db = nullptr;
    EXPECT_TRUE(Db::Open(options, folder_.string(), &db).ok());
    db_.reset(db);
    for (int i = 100; i < 200; ++i) {
      EXPECT_TRUE(db_->Put(Write(), "0" + std::to_string(i), std::to_string(i)).ok());
    }
  }
  ~Store() {
    db_.reset();
    std::filesystem::remove_all(folder_);
  }
  auto iterate() const { return rubato::StoreIterator(db_->NewIterator(Read())); }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<Db> db_;
};

using Rocks =
    Store<rocksdb::DB, rocksdb::Options, rocksdb::ReadOptions, rocksdb::WriteOptions>;
using Level =
    Store<leveldb::DB, leveldb::Options, leveldb::ReadOptions, leveldb::WriteOptions>;

rubato::Executor one_worker() {
  rubato::ExecutorOptions options;
  options.scheduler.workers = 1;
  auto executor = rubato::Executor::create(options);
  EXPECT_TRUE(executor.ok());
  return std::move(*executor);
}

template <class S>
class StoreIterators : public ::testing::Test {
 protected:
  int scan() {
    int found = 0;
    auto it = store_.iterate();
    for (it.SeekToFirst(); it.Valid(); it.Next()) ++found;
    EXPECT_TRUE(it.status().ok());
    return found;
  }

  S store_;
  rubato::Executor executor_ = one_worker();
};
using Both = ::testing::Types<Rocks, Level>;
TYPED_TEST_SUITE(StoreIterators, Both);

TYPED_TEST(StoreIterators, move_as_the_iterators_that_they_hold) {
  auto it = this->store_.iterate();
  it.Seek("0150");
  EXPECT_EQ(it.key().ToString() + it.value().ToString(), "0150150");
  it.Prev();
  EXPECT_EQ(it.key().ToString(), "0149");
  it.SeekToLast();
  EXPECT_EQ(it.get()->key().ToString(), "0199");
  it.Next();
  EXPECT_FALSE(it.Valid());
}

TYPED_TEST(StoreIterators, scans_give_way_to_short_tasks) {
  constexpr int kShort = 50;
  std::atomic<int> ran{0};
  std::future<void> scans = this->executor_.submit([&] {
    do {
      EXPECT_EQ(this->scan(), 100);
    } while (ran < kShort);
  });
  for (int i = 0; i < kShort; ++i) this->executor_.submit([&] { ++ran; }).get();
  scans.get();
  EXPECT_GT(this->executor_.stats().preemptions, 0u);
}

TYPED_TEST(StoreIterators, a_cancelled_scan_ends) {
  const rubato::Cancellation cancellation;
  std::atomic<bool> started{false};
  std::future<void> scans = this->executor_.submit(
      [&] {
        for (;; started = true) this->scan();
      },
      {.cancellation = cancellation});
  while (!started) continue;
  cancellation.cancel();
  EXPECT_THROW(scans.get(), rubato::TaskError);
}

TEST(StoreIteratorOfRocksDb, seeks_backwards) {
  const Rocks store;
  auto it = store.iterate();
  it.SeekForPrev("0150x");
  EXPECT_EQ(it.key().ToString(), "0150");
}

}  // namespace
