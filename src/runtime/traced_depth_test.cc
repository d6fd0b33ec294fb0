// SPDX-License-Identifier: Apache-2.0
#include "runtime/traced_depth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "mechanism/queue/testing/model.h"

namespace rubato {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

TEST(TracedDepth, a_change_is_told_once) {
  TracedDepth<> traced;
  uint32_t depth = 3;
  const auto look = [&depth] { return depth; };
  EXPECT_EQ(traced.changed(1, look)->depth, 3u);
  EXPECT_FALSE(traced.changed(1, look));
  depth = 0;
  EXPECT_EQ(traced.changed(1, look)->depth, 0u);
  EXPECT_FALSE(traced.changed(1, look));
  EXPECT_EQ(traced.changed(2, look)->depth, 0u) << "each trace has it from its start";
}

// Under the model checker: a queue grows while two workers look. What they are told must be the
// truth to whoever reads it in the order of the times, so it grows, too.
template <model::Weaken kWeaken>
model::Report workers_look_while_a_queue_grows() {
  struct Scene {
    model::Atomic<uint32_t> depth;
    TracedDepth<model::Sync<kWeaken>> traced;
    std::vector<typename TracedDepth<model::Sync<kWeaken>>::Change> told;
  };
  return model::explore(model::within(3, 3), [](model::Execution& run) {
    auto scene = std::make_shared<Scene>();
    run.thread([scene] {
      scene->depth.store(1, kRelaxed);
      scene->depth.store(2, kRelaxed);
    });
    for (int worker = 0; worker < 2; ++worker) {
      run.thread([scene] {
        for (int looks = 0; looks < 2; ++looks) {
          const auto change = scene->traced.changed(1, [&] { return scene->depth.load(kRelaxed); });
          if (change) scene->told.push_back(*change);
        }
      });
    }
    run.finally([scene, &run] {
      auto& told = scene->told;
      std::stable_sort(told.begin(), told.end(),
                       [](const auto& a, const auto& b) { return a.at < b.at; });
      const auto wrong = std::adjacent_find(
          told.begin(), told.end(),
          [](const auto& a, const auto& b) { return a.depth >= b.depth; });
      run.expect(wrong == told.end(), "a depth was told after a later one, or twice");
    });
  });
}

TEST(TracedDepth, what_two_workers_are_told_is_in_order) {
  const model::Report report = workers_look_while_a_queue_grows<model::Weaken{}>();
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 50u);
  RecordProperty("executions", std::to_string(report.executions));
}

TEST(TracedDepth, it_would_not_be_without_acquire_or_release) {
  constexpr model::Weaken kLoads{.loads = true};
  constexpr model::Weaken kExchanges{.exchanges = true};
  EXPECT_NE(workers_look_while_a_queue_grows<kLoads>().failure, "");
  EXPECT_NE(workers_look_while_a_queue_grows<kExchanges>().failure, "");
}

TEST(TracedDepth, each_change_is_told_to_one_of_many_threads) {
  constexpr uint32_t kLast = 20'000;
  TracedDepth<> traced;
  std::atomic<uint32_t> depth{1};
  std::array<std::vector<uint32_t>, 3> told;
  std::vector<std::thread> threads;
  for (auto& mine : told) {
    threads.emplace_back([&] {
      for (uint32_t seen = 0; seen < kLast;) {
        seen = depth.load(kRelaxed);
        const auto change = traced.changed(1, [&] { return depth.load(kRelaxed); });
        if (change) mine.push_back(change->depth);
      }
    });
  }
  for (uint32_t next = 2; next <= kLast; ++next) depth.store(next, kRelaxed);
  for (std::thread& thread : threads) thread.join();
  std::vector<uint32_t> all;
  for (const auto& mine : told) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
  EXPECT_EQ(all.back(), kLast);
}

}  // namespace
}  // namespace rubato
