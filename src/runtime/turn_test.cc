// SPDX-License-Identifier: Apache-2.0
#include "runtime/turn.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "mechanism/queue/testing/model.h"

namespace rubato {
namespace {

TEST(Turn, a_step_that_comes_by_itself_is_repeated_after_the_one_that_runs) {
  Turn<> turn;
  int steps = 0;
  bool inside = false;
  turn.take([&] {
    EXPECT_FALSE(inside);
    inside = true;
    if (++steps == 1) turn.take([&] { FAIL() << "somebody is at it"; });
    inside = false;
  });
  EXPECT_EQ(steps, 2);
  turn.take([&] { ++steps; });
  EXPECT_EQ(steps, 3);
}

// Two threads bring work and have it done. Forbidden outcomes: work that no thread saw, or two
// threads in the step at once (the plain cell).
template <model::Weaken kWeaken>
model::Report two_that_bring_work() {
  return model::explore({2, 2}, [](model::Execution& run) {
    struct Scene {
      Turn<model::Sync<kWeaken>> turn;
      model::Atomic<int, kWeaken> first;
      model::Atomic<int, kWeaken> second;
      model::Plain<int> seen;
    };
    auto scene = std::make_shared<Scene>();
    const auto look = [scene] {
      scene->seen = scene->first.load(std::memory_order_relaxed) +
                    scene->second.load(std::memory_order_relaxed);
    };
    run.thread([scene, look] {
      scene->first.store(1, std::memory_order_relaxed);
      scene->turn.take(look);
    });
    run.thread([scene, look] {
      scene->second.store(1, std::memory_order_relaxed);
      scene->turn.take(look);
    });
    run.finally([scene, &run] { run.expect(scene->seen == 2, "work that nobody saw"); });
  });
}

TEST(Turn, no_work_is_overlooked_and_one_is_at_it_at_a_time) {
  const model::Report report = two_that_bring_work<model::Weaken{}>();
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 10u);
}

TEST(Turn, work_would_be_overlooked_without_its_ordering) {
  constexpr model::Weaken kExchanges{.exchanges = true};
  EXPECT_NE(two_that_bring_work<kExchanges>().failure, "");
}

// For ThreadSanitizer.
TEST(Turn, four_threads_take_turns_and_nothing_is_lost) {
  constexpr int kEach = 2'000;
  Turn<> turn;
  std::atomic<int> brought{0};
  int seen = 0;  // plain: guarded by the turn
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        brought.fetch_add(1, std::memory_order_relaxed);
        turn.take([&] { seen = brought.load(std::memory_order_relaxed); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen, 4 * kEach);
}

}  // namespace
}  // namespace rubato
