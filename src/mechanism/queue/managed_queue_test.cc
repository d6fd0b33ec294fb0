// SPDX-License-Identifier: Apache-2.0
//
// ManagedQueue, whose taker works at both ends: with one thread, and under the model checker with
// two producers and a consumer role that changes threads.
#include "mechanism/queue/managed_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "mechanism/fiber/sanitizer.h"
#include "mechanism/queue/testing/model.h"

namespace rubato {
namespace {

using Items = std::vector<int>;

template <class Queue>
Items take_all(Queue& queue) {
  Items items;
  for (int item = 0; queue.take(item);) items.push_back(item);
  return items;
}

template <class Queue>
int tail_of(Queue& queue) {
  int item = -1;
  return queue.take_tail(item) ? item : -1;
}

TEST(ManagedQueue, gives_the_oldest_at_the_head_and_the_newest_at_the_tail) {
  ManagedQueue<int> queue(8);
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(queue.put(i));
  EXPECT_EQ(tail_of(queue), 5);
  EXPECT_EQ(tail_of(queue), 4);
  int item = -1;
  ASSERT_TRUE(queue.take(item));
  EXPECT_EQ(item, 0);
  EXPECT_EQ(take_all(queue), (Items{1, 2, 3}));
}

TEST(ManagedQueue, what_comes_after_a_look_at_the_tail_is_behind_the_rest) {
  ManagedQueue<int> queue(8);
  for (int i = 0; i < 3; ++i) queue.put(i);
  EXPECT_EQ(tail_of(queue), 2);
  queue.put(7);
  queue.put(8);
  EXPECT_EQ(tail_of(queue), 8);
  EXPECT_EQ(take_all(queue), (Items{0, 1, 7}));
}

TEST(ManagedQueue, says_when_it_is_empty_at_either_end) {
  ManagedQueue<int> queue(4);
  int item = -1;
  EXPECT_FALSE(queue.take(item));
  EXPECT_FALSE(queue.take_tail(item));
  queue.put(1);
  EXPECT_EQ(tail_of(queue), 1);
  EXPECT_FALSE(queue.take(item));
  EXPECT_FALSE(queue.take_tail(item));
}

TEST(ManagedQueue, refuses_when_full_and_holds_twice_as_many_at_most) {
  ManagedQueue<int> queue(4);
  EXPECT_EQ(queue.capacity(), 4u);
  int held = 0;
  while (queue.put(held)) ++held;
  EXPECT_EQ(held, 4);
  for (int round = 0; round < 20; ++round) {
    tail_of(queue);
    while (queue.put(held)) ++held;
    EXPECT_LE(queue.depth(), 8u);
  }
  const uint32_t depth = queue.depth();
  EXPECT_EQ(take_all(queue).size(), depth);
}

TEST(ManagedQueue, beyond_its_capacity_the_tail_is_not_the_newest_but_order_is_kept) {
  ManagedQueue<int> queue(4);
  for (int i = 0; i < 4; ++i) queue.put(i);
  EXPECT_EQ(tail_of(queue), 3);
  for (int i = 4; i < 8; ++i) ASSERT_TRUE(queue.put(i));
  EXPECT_EQ(tail_of(queue), 4);  // 5, 6 and 7 find no room in the ring
  EXPECT_EQ(take_all(queue), (Items{0, 1, 2, 5, 6, 7}));
}

TEST(ManagedQueue, counts_all_it_ever_held) {
  ManagedQueue<int> queue(4);
  int item = 0;
  for (int i = 0; i < 10; ++i) {
    queue.put(i);
    EXPECT_EQ(queue.depth(), 1u);
    i % 2 == 0 ? queue.take(item) : queue.take_tail(item);
    EXPECT_EQ(queue.depth(), 0u);
  }
  EXPECT_EQ(queue.produced(), 10u);
  EXPECT_EQ(queue.consumed(), 10u);
}

TEST(ManagedQueue, asked_for_one_holds_at_least_one) {
  ManagedQueue<int> queue(1);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(queue.put(i));
    EXPECT_EQ(tail_of(queue), i);
  }
}

TEST(ManagedQueue, behaves_like_a_deque_under_random_use) {
  const char* text = std::getenv("RUBATO_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : 4712;
  SCOPED_TRACE("RUBATO_SEED=" + std::to_string(seed));
  Prng prng(seed);
  ManagedQueue<int> queue(16);
  std::deque<int> expected;
  int taken = 0;
  for (int step = 0; step < 50'000; ++step) {
    switch (prng.below(4)) {
      case 0:
      case 1:
        if (expected.size() < 16 && queue.put(step)) expected.push_back(step);
        break;
      case 2:
        ASSERT_EQ(queue.take(taken), !expected.empty());
        if (expected.empty()) break;
        ASSERT_EQ(taken, expected.front());
        expected.pop_front();
        break;
      default:
        ASSERT_EQ(queue.take_tail(taken), !expected.empty());
        if (expected.empty()) break;
        ASSERT_EQ(taken, expected.back());
        expected.pop_back();
    }
    ASSERT_EQ(queue.depth(), expected.size());
  }
}

// Under the model. Items are producer * 100 + serial number.

using model::Bounds;
using model::Execution;
using model::Report;
using model::Weaken;

template <Weaken kWeaken>
struct Scene {
  using Sync = model::Sync<kWeaken>;

  ManagedQueue<int, Sync> queue{2};
  typename Sync::template Atomic<bool> consumer{false};  // taken
  Items put[2];
  Items taken[2];  // by taker, at either end

  void produce(int producer, int count) {
    for (int i = 1; i <= count; ++i) {
      const int item = producer * 100 + i;
      if (queue.put(item)) put[producer].push_back(item);
    }
  }

  // As Managers::step: returns at once if another thread is the consumer.
  void step(int taker) {
    bool free = false;
    if (!consumer.compare_exchange_strong(free, true, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
      return;
    }
    int item = 0;
    if (queue.take_tail(item)) taken[taker].push_back(item);
    if (queue.take(item)) taken[taker].push_back(item);
    consumer.store(false, std::memory_order_release);
  }

  void check(Execution& run) {
    Items left = take_all(queue);
    for (size_t i = 1; i < left.size(); ++i) {
      const bool same = left[i - 1] / 100 == left[i] / 100;
      run.expect(!same || left[i - 1] < left[i], "order broken");
    }
    Items all_put = put[0], all_taken = taken[0];
    all_put.insert(all_put.end(), put[1].begin(), put[1].end());
    all_taken.insert(all_taken.end(), taken[1].begin(), taken[1].end());
    all_taken.insert(all_taken.end(), left.begin(), left.end());
    std::sort(all_put.begin(), all_put.end());
    std::sort(all_taken.begin(), all_taken.end());
    run.expect(all_put == all_taken, "items lost or doubled");
    run.expect(queue.depth() == 0, "depth of an empty queue");
  }
};

// Sanitized builds look at fewer schedules, as in interleave_test.cc.
Bounds within(uint32_t preemptions, uint32_t stale_reads) {
  if (sanitizer::kPresent) preemptions = std::min(preemptions, 1u);
  return {preemptions, stale_reads};
}

template <Weaken kWeaken = Weaken{}>
Report explore(const Bounds& bounds, std::initializer_list<void (*)(Scene<kWeaken>&)> bodies) {
  const std::vector<void (*)(Scene<kWeaken>&)> list(bodies);
  return model::explore(bounds, [&list](Execution& run) {
    auto scene = std::make_shared<Scene<kWeaken>>();
    for (const auto body : list) run.thread([scene, body] { body(*scene); });
    run.finally([scene, &run] { scene->check(run); });
  });
}

void expect_sound(const Report& report) {
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 100u);
}

template <Weaken kWeaken, int kTaker>
void step_twice(Scene<kWeaken>& scene) {
  scene.step(kTaker);
  scene.step(kTaker);
}

template <Weaken kWeaken, int kProducer>
void put_two(Scene<kWeaken>& scene) {
  scene.produce(kProducer, 2);
}

constexpr Weaken kSound{};
constexpr Weaken kWeakLoads{true, false, false};
constexpr Weaken kWeakStores{false, true, false};

TEST(ManagedQueueInterleave, two_producers_and_a_taker_at_both_ends) {
  expect_sound(explore<kSound>(
      within(2, 2), {put_two<kSound, 0>, put_two<kSound, 1>, step_twice<kSound, 0>}));
}

TEST(ManagedQueueInterleave, a_producer_and_two_consumers_by_turns) {
  expect_sound(explore<kSound>(
      within(2, 2), {put_two<kSound, 0>, step_twice<kSound, 0>, step_twice<kSound, 1>}));
}

TEST(ManagedQueueInterleave, checker_notices_a_consumer_that_does_not_hand_over) {
  EXPECT_NE(explore<kWeakStores>(within(2, 1), {put_two<kWeakStores, 0>,
                                                step_twice<kWeakStores, 0>,
                                                step_twice<kWeakStores, 1>})
                .failure,
            "");
  EXPECT_NE(explore<kWeakLoads>(within(2, 1), {put_two<kWeakLoads, 0>, step_twice<kWeakLoads, 0>,
                                               step_twice<kWeakLoads, 1>})
                .failure,
            "");
}

}  // namespace
}  // namespace rubato
