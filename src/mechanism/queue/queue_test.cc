// SPDX-License-Identifier: Apache-2.0
//
// The behaviour of every queue when one thread uses it: the same tests for all four.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <numeric>
#include <string>
#include <vector>

#include "base/prng.h"
#include "mechanism/queue/local_queue.h"
#include "mechanism/queue/mpmc_queue.h"
#include "mechanism/queue/spsc_queue.h"
#include "mechanism/queue/steal_queue.h"

namespace rubato {
namespace {

template <class Queue>
uint32_t take_some(Queue& queue, std::span<int> out) {
  if constexpr (requires { queue.steal(out); }) {
    return queue.steal(out);
  } else {
    return queue.take_batch(out);
  }
}

template <class Queue>
class QueueTest : public testing::Test {};

using Queues = testing::Types<SpscQueue<int>, MpmcQueue<int>, StealQueue<int>, LocalQueue<int>>;
TYPED_TEST_SUITE(QueueTest, Queues);

TYPED_TEST(QueueTest, gives_items_in_the_order_they_came) {
  TypeParam queue(8);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(queue.put(2 * i));
    ASSERT_TRUE(queue.put(2 * i + 1));
    int item = -1;
    ASSERT_TRUE(queue.take(item));
    EXPECT_EQ(item, 2 * i);
    ASSERT_TRUE(queue.take(item));
    EXPECT_EQ(item, 2 * i + 1);
  }
}

TYPED_TEST(QueueTest, refuses_when_full_and_says_when_empty) {
  TypeParam queue(4);
  EXPECT_EQ(queue.capacity(), 4u);
  int item = -1;
  EXPECT_FALSE(queue.take(item));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue.put(i));
  EXPECT_FALSE(queue.put(4));
  EXPECT_EQ(queue.depth(), 4u);
  EXPECT_TRUE(queue.take(item));
  EXPECT_TRUE(queue.put(4));
  for (int i = 1; i < 5; ++i) {
    EXPECT_TRUE(queue.take(item));
    EXPECT_EQ(item, i);
  }
  EXPECT_FALSE(queue.take(item));
  EXPECT_EQ(queue.depth(), 0u);
}

TYPED_TEST(QueueTest, takes_the_part_of_a_batch_that_fits) {
  TypeParam queue(8);
  std::vector<int> items(6);
  std::iota(items.begin(), items.end(), 0);
  EXPECT_EQ(queue.put_batch(items), 6u);
  EXPECT_EQ(queue.put_batch(items), 2u);
  EXPECT_EQ(queue.put_batch(items), 0u);
  EXPECT_EQ(queue.put_batch({}), 0u);
  std::vector<int> out(5, -1);
  EXPECT_EQ(take_some(queue, out), 5u);
  EXPECT_EQ(out, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(take_some(queue, std::span<int>()), 0u);
  EXPECT_EQ(take_some(queue, out), 3u);
  EXPECT_EQ(out[0], 5);
  EXPECT_EQ(out[1], 0);
  EXPECT_EQ(out[2], 1);
  EXPECT_EQ(take_some(queue, out), 0u);
}

TYPED_TEST(QueueTest, batch_larger_than_the_queue_fills_it) {
  TypeParam queue(4);
  std::vector<int> items(64);
  std::iota(items.begin(), items.end(), 0);
  EXPECT_EQ(queue.put_batch(items), 4u);
  std::vector<int> out(64, -1);
  EXPECT_EQ(take_some(queue, out), 4u);
  EXPECT_EQ(out[3], 3);
}

TYPED_TEST(QueueTest, counts_all_it_ever_held) {
  TypeParam queue(2);
  int item = 0;
  for (int i = 0; i < 10; ++i) {
    queue.put(i);
    queue.take(item);
  }
  queue.put(10);
  EXPECT_EQ(queue.produced(), 11u);
  EXPECT_EQ(queue.consumed(), 10u);
  EXPECT_EQ(queue.depth(), 1u);
}

struct ItsValue {
  uint64_t operator()(int item) const { return static_cast<uint64_t>(item); }
};

TEST(MpmcQueue, shows_the_key_that_comes_next) {
  using Queue = MpmcQueue<int, StdSync, ItsValue>;
  Queue queue(2);
  EXPECT_EQ(queue.first_key(), Queue::kNoKey);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(queue.put(7 + i));
    EXPECT_EQ(queue.first_key(), i == 0 ? 7u : 6u + static_cast<uint64_t>(i));
    int item = 0;
    if (i > 0) {
      ASSERT_TRUE(queue.take(item));
    }
    EXPECT_EQ(queue.first_key(), 7u + static_cast<uint64_t>(i));
  }
  std::array<int, 2> items{};
  EXPECT_EQ(queue.take_batch(items), 1u);
  EXPECT_EQ(queue.first_key(), Queue::kNoKey);
  EXPECT_EQ(queue.put_batch(std::array{3, 4}), 2u);
  EXPECT_EQ(queue.first_key(), 3u);
}

TYPED_TEST(QueueTest, asked_for_one_holds_at_least_one) {
  TypeParam queue(1);
  int item = 0;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(queue.put(i));
    ASSERT_TRUE(queue.take(item));
    EXPECT_EQ(item, i);
  }
}

TYPED_TEST(QueueTest, behaves_like_a_deque_under_random_use) {
  const char* text = std::getenv("RUBATO_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 4711;
  SCOPED_TRACE("RUBATO_SEED=" + std::to_string(seed));
  Prng prng(seed);
  TypeParam queue(16);
  std::deque<int> expected;
  int serial = 0;
  for (int step = 0; step < 20'000; ++step) {
    std::vector<int> batch(prng.below(20));
    if (prng.below(2) == 0) {
      std::iota(batch.begin(), batch.end(), serial);
      const uint32_t count = queue.put_batch(batch);
      ASSERT_EQ(count, std::min<size_t>(batch.size(), 16 - expected.size()));
      expected.insert(expected.end(), batch.begin(), batch.begin() + count);
      serial += static_cast<int>(count);
    } else {
      const uint32_t count = take_some(queue, batch);
      ASSERT_EQ(count, std::min(batch.size(), expected.size()));
      for (uint32_t i = 0; i < count; ++i) {
        ASSERT_EQ(batch[i], expected.front());
        expected.pop_front();
      }
    }
    ASSERT_EQ(queue.depth(), expected.size());
  }
}

TEST(QueueDeathTest, capacity_must_be_a_power_of_two) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(SpscQueue<int>(6), "check failed");
  EXPECT_DEATH(MpmcQueue<int>(0), "check failed");
}

}  // namespace
}  // namespace rubato
