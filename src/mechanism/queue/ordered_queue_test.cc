// SPDX-License-Identifier: Apache-2.0
#include "mechanism/queue/ordered_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/prng.h"

namespace rubato {
namespace {

struct Item {
  uint64_t key = 0;
  int serial = 0;
  friend bool operator==(const Item&, const Item&) = default;
};
struct ByKey {
  uint64_t operator()(const Item& item) const { return item.key; }
};
using Queue = OrderedQueue<Item, ByKey>;

TEST(OrderedQueue, gives_the_smallest_key_first_and_of_equal_ones_the_first_put) {
  Queue queue(8);
  for (const Item item : {Item{5, 0}, Item{3, 1}, Item{5, 2}, Item{3, 3}, Item{4, 4}}) {
    ASSERT_TRUE(queue.put(item));
  }
  std::vector<int> serials;
  for (Item item; queue.take(item);) serials.push_back(item.serial);
  EXPECT_EQ(serials, (std::vector<int>{1, 3, 4, 0, 2}));
}

TEST(OrderedQueue, refuses_when_full_and_says_when_empty) {
  Queue queue(4);
  EXPECT_EQ(queue.capacity(), 4u);
  Item item{9, 9};
  EXPECT_FALSE(queue.take(item));
  EXPECT_EQ(item, (Item{9, 9}));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue.put({0, i}));
  EXPECT_FALSE(queue.put({0, 4}));
  EXPECT_TRUE(queue.take(item));
  EXPECT_TRUE(queue.put({0, 4}));
  EXPECT_EQ(queue.depth(), 4u);
  EXPECT_EQ(queue.produced(), 5u);
  EXPECT_EQ(queue.consumed(), 1u);
}

TEST(OrderedQueue, shows_the_key_that_comes_next) {
  Queue queue(4);
  EXPECT_EQ(queue.first_key(), Queue::kNoKey);
  ASSERT_TRUE(queue.put({7, 0}));
  ASSERT_TRUE(queue.put({2, 1}));
  EXPECT_EQ(queue.first_key(), 2u);
  Item item;
  ASSERT_TRUE(queue.take(item));
  EXPECT_EQ(queue.first_key(), 7u);
  ASSERT_TRUE(queue.take(item));
  EXPECT_EQ(queue.first_key(), Queue::kNoKey);
}

TEST(OrderedQueue, agrees_with_a_sorted_list) {
  const char* text = std::getenv("RUBATO_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 4713;
  SCOPED_TRACE("RUBATO_SEED=" + std::to_string(seed));
  Prng prng(seed);
  Queue queue(64);
  std::vector<Item> sorted;
  for (int serial = 0; serial < 20'000; ++serial) {
    if (prng.below(100) < 52) {
      const Item item{prng.below(20), serial};
      ASSERT_EQ(queue.put(item), sorted.size() < 64);
      if (sorted.size() == 64) continue;
      const auto behind = [](const Item& a, const Item& b) { return a.key < b.key; };
      sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), item, behind), item);
    } else {
      Item item;
      ASSERT_EQ(queue.take(item), !sorted.empty());
      if (sorted.empty()) continue;
      ASSERT_EQ(item, sorted.front());
      sorted.erase(sorted.begin());
    }
  }
}

}  // namespace
}  // namespace rubato
