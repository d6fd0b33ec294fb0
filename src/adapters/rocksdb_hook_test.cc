// SPDX-License-Identifier: Apache-2.0
//
// The hook as RocksDB calls it: weakly, from an iterator and from elsewhere. The real RocksDB 9.10
// is in tests/e2e/test_stores.py.
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include <rubato/rubato.hpp>

extern "C" bool RocksDbThreadYieldAndCheckAbort() __attribute__((weak));

namespace rocksdb {

// Called what RocksDB's are called; the program exports them.
class DBIter {
 public:
  [[gnu::noinline]] static bool step() {
    const bool aborted = RocksDbThreadYieldAndCheckAbort();
    steps.fetch_add(1, std::memory_order_relaxed);
    return aborted;
  }
  static std::atomic<uint64_t> steps;
};
std::atomic<uint64_t> DBIter::steps{0};

[[gnu::noinline]] bool multi_get_step() {
  const bool aborted = RocksDbThreadYieldAndCheckAbort();
  DBIter::steps.fetch_add(1, std::memory_order_relaxed);
  return aborted;
}

}  // namespace rocksdb

namespace {

rubato::Executor one_worker() {
  rubato::ExecutorOptions options;
  options.scheduler.workers = 1;
  auto executor = rubato::Executor::create(options);
  EXPECT_TRUE(executor.ok());
  return std::move(*executor);
}

TEST(RocksDbHook, is_there_and_does_nothing_on_other_threads) {
  ASSERT_NE(&RocksDbThreadYieldAndCheckAbort, nullptr);
  EXPECT_FALSE(rocksdb::DBIter::step());
}

TEST(RocksDbHook, an_iterator_gives_way_to_short_tasks) {
  rubato::Executor executor = one_worker();
  std::atomic<int> ran{0};
  constexpr int kShort = 50;
  std::future<void> scan = executor.submit([&] {
    while (ran < kShort) EXPECT_FALSE(rocksdb::DBIter::step());
  });
  for (int i = 0; i < kShort; ++i) executor.submit([&] { ++ran; }).get();
  scan.get();
  EXPECT_GT(executor.stats().preemptions, 0u);
}

TEST(RocksDbHook, others_do_not_give_way) {
  rubato::Executor executor = one_worker();
  std::atomic<bool> started{false};
  std::atomic<bool> other_ran{false};
  std::future<bool> get = executor.submit([&] {
    started = true;
    for (int i = 0; i < 3'000'000; ++i) EXPECT_FALSE(rocksdb::multi_get_step());
    return other_ran.load();
  });
  while (!started) continue;
  std::future<void> other = executor.submit([&] { other_ran = true; });
  EXPECT_FALSE(get.get());
  other.get();
  EXPECT_EQ(executor.stats().preemptions, 0u);
}

TEST(RocksDbHook, a_cancelled_query_is_told) {
  rubato::Executor executor = one_worker();
  const rubato::Cancellation cancellation;
  std::atomic<bool> started{false};
  std::future<bool> scan = executor.submit(
      [&] {
        started = true;
        while (!rocksdb::DBIter::step()) continue;
        return rocksdb::multi_get_step();
      },
      {.cancellation = cancellation});
  while (!started) continue;
  cancellation.cancel();
  EXPECT_TRUE(scan.get());
}

}  // namespace
