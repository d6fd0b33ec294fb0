// SPDX-License-Identifier: Apache-2.0
#include "runtime/own_marks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "mechanism/queue/steal_queue.h"
#include "mechanism/queue/testing/model.h"
#include "runtime/sleepers.h"

namespace rubato {
namespace {

constexpr WorkerId kFirst{0}, kSecond{1};

// All others that are marked, in the order of the circle.
std::vector<uint32_t> others(const OwnMarks<>& marks, uint32_t from) {
  std::vector<uint32_t> found;
  marks.any_other({from}, [&](WorkerId worker) {
    found.push_back(worker.value);
    return false;
  });
  return found;
}

TEST(OwnMarks, a_circle_that_begins_after_the_asker_leaves_it_out) {
  for (const uint32_t workers : {1u, 2u, 63u, 64u, 65u, 130u, 256u}) {
    OwnMarks<> marks(workers);
    for (uint32_t w = 0; w < workers; ++w) marks.set({w});
    for (uint32_t from = 0; from < workers; ++from) {
      std::vector<uint32_t> expected;
      for (uint32_t i = 1; i < workers; ++i) expected.push_back((from + i) % workers);
      EXPECT_EQ(others(marks, from), expected) << workers << " workers, from " << from;
    }
  }
}

TEST(OwnMarks, the_circle_ends_where_something_is_found) {
  OwnMarks<> marks(8);
  for (const uint32_t w : {1u, 3u, 6u}) marks.set({w});
  std::vector<uint32_t> asked;
  EXPECT_TRUE(marks.any_other({2}, [&](WorkerId worker) {
    asked.push_back(worker.value);
    return worker.value == 6;
  }));
  EXPECT_EQ(asked, (std::vector<uint32_t>{3, 6}));
  marks.clear({3});
  marks.clear({3});
  EXPECT_EQ(others(marks, 2), (std::vector<uint32_t>{6, 1}));
}

// A worker that puts, finds its queue empty or not, and puts again, beside one that takes once and
// falls asleep when it finds nothing. Forbidden outcome: it sleeps, nobody has claimed it, and
// something waits.
template <model::Weaken kWeaken>
model::Report looking_beside_an_owner() {
  return model::explore(model::within(3, 3), [](model::Execution& run) {
    using Sync = model::Sync<kWeaken>;
    struct Scene {
      OwnMarks<Sync> marks{2};
      StealQueue<int, Sync> queue{2};
      Sleepers<Sync> sleepers{2};
      bool sleeps = false;
      bool woken = false;
    };
    auto scene = std::make_shared<Scene>();
    run.thread([scene] {
      int item = 0;
      for (const int put : {1, 2}) {
        scene->marks.set(kFirst);
        scene->queue.put(put);
        scene->woken |= scene->sleepers.claim(kSecond);
        if (put == 1 && !scene->queue.take(item)) scene->marks.clear(kFirst);
      }
    });
    run.thread([scene] {
      const auto take = [&](WorkerId) {
        int item = 0;
        return scene->queue.take(item);
      };
      scene->marks.any_other(kSecond, take);
      scene->sleepers.falls_asleep(kSecond);
      scene->sleeps = !scene->marks.any_other(kSecond, take);
      if (!scene->sleeps) scene->sleepers.wakes_up(kSecond);
    });
    run.finally([scene, &run] {
      const bool waits = scene->queue.produced() > scene->queue.consumed();
      run.expect(!waits || !scene->sleeps || scene->woken, "asleep beside what waits");
    });
  });
}

TEST(OwnMarks, who_looks_at_marks_only_does_not_sleep_beside_what_waits) {
  const model::Report report = looking_beside_an_owner<model::Weaken{}>();
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 100u);
}

TEST(OwnMarks, would_without_the_fences) {
  EXPECT_NE(looking_beside_an_owner<model::Weaken{.fences = true}>().failure, "");
}

// For ThreadSanitizer: each puts into its own queue, and all take where there is a mark.
TEST(OwnMarks, all_that_is_put_is_found_by_those_who_look_at_marks) {
  constexpr uint32_t kWorkers = 3, kEach = 4'000;
  OwnMarks<> marks(kWorkers);
  std::vector<std::unique_ptr<StealQueue<uint32_t>>> queues;
  for (uint32_t w = 0; w < kWorkers; ++w) {
    queues.push_back(std::make_unique<StealQueue<uint32_t>>(64));
  }
  std::atomic<uint32_t> taken{0};
  const auto work = [&](WorkerId me) {
    const auto take = [&](WorkerId from) {
      uint32_t item = 0;
      if (!queues[from.value]->take(item)) return false;
      ++taken;
      return true;
    };
    uint32_t put = 0;
    while (taken < kWorkers * kEach) {
      marks.set(me);
      if (put < kEach && queues[me.value]->put(put)) ++put;
      if (put % 2 == 0 && !take(me)) marks.clear(me);
      if (!marks.any_other(me, take) && put == kEach && !take(me)) std::this_thread::yield();
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < kWorkers; ++w) threads.emplace_back(work, WorkerId{w});
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, kWorkers * kEach);
}

}  // namespace
}  // namespace rubato
