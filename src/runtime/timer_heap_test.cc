// SPDX-License-Identifier: Apache-2.0
//
// TimerHeap beside a sorted container, with random pushes, pops and removals.
#include "runtime/timer_heap.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "base/prng.h"

namespace rubato {
namespace {

struct Item {
  TimerLinks<Item> timer;
};
using Heap = TimerHeap<Item, &Item::timer>;

TEST(TimerHeap, the_earliest_is_first_whatever_was_erased) {
  Prng prng(7);
  std::vector<Item> items(200);
  Heap heap;
  std::multiset<int64_t> expected;
  for (int step = 0; step < 20'000; ++step) {
    Item& item = items[prng.below(static_cast<uint32_t>(items.size()))];
    if (!Heap::has(item)) {
      const auto deadline = static_cast<int64_t>(prng.below(1000));
      heap.push(item, Instant(deadline));
      expected.insert(deadline);
    } else {
      Item& gone = prng.below(2) == 0 ? item : *heap.first();
      expected.erase(expected.find(gone.timer.deadline.ns()));
      heap.erase(gone);
    }
    ASSERT_EQ(heap.empty(), expected.empty());
    if (!expected.empty()) {
      ASSERT_EQ(heap.next().ns(), *expected.begin());
    }
  }
}

TEST(TimerHeap, hands_out_all_in_their_order) {
  std::vector<Item> items(100);
  Heap heap;
  for (size_t i = 0; i < items.size(); ++i) {
    heap.push(items[i], Instant(static_cast<int64_t>(i * 37 % 100)));
  }
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(heap.next().ns(), i);
    heap.erase(*heap.first());
  }
  EXPECT_EQ(heap.next(), Instant::never());
}

}  // namespace
}  // namespace rubato
