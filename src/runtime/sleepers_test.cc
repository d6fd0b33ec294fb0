// SPDX-License-Identifier: Apache-2.0
#include "runtime/sleepers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <thread>

#include "mechanism/queue/testing/model.h"

namespace rubato {
namespace {

constexpr WorkerId kFirst{0}, kSecond{1}, kThird{2};
bool anybody(WorkerId) { return true; }

TEST(Sleepers, one_request_wakes_one_worker_and_the_next_another) {
  Sleepers<> sleepers(3);
  EXPECT_TRUE(sleepers.all_awake());
  EXPECT_EQ(sleepers.claim_one(kFirst, anybody), Sleepers<>::kNobody);
  sleepers.falls_asleep(kSecond);
  sleepers.falls_asleep(kThird);
  EXPECT_EQ(sleepers.claim_one(kFirst, anybody), 1u);
  EXPECT_EQ(sleepers.claim_one(kFirst, anybody), 2u);
  EXPECT_EQ(sleepers.claim_one(kFirst, anybody), Sleepers<>::kNobody);
  sleepers.wakes_up(kSecond);
  sleepers.wakes_up(kThird);
  EXPECT_TRUE(sleepers.all_awake());
}

TEST(Sleepers, only_a_worker_that_may_serve_it_is_woken) {
  Sleepers<> sleepers(3);
  sleepers.falls_asleep(kSecond);
  sleepers.falls_asleep(kThird);
  const auto last = [](WorkerId worker) { return worker.value == 2; };
  EXPECT_EQ(sleepers.claim_one(kFirst, last), 2u);
  EXPECT_EQ(sleepers.claim_one(kFirst, last), Sleepers<>::kNobody);
  EXPECT_TRUE(sleepers.is_asleep(kSecond));
  EXPECT_TRUE(sleepers.claim(kSecond));
  EXPECT_FALSE(sleepers.claim(kSecond));
}

TEST(Sleepers, all_are_asleep_until_the_first_wakes) {
  Sleepers<> sleepers(2);
  sleepers.falls_asleep(kFirst);
  EXPECT_FALSE(sleepers.all_asleep());
  sleepers.leaves();
  EXPECT_TRUE(sleepers.all_asleep());
  sleepers.comes_back();
  EXPECT_FALSE(sleepers.all_asleep());
  sleepers.wait_while_all_asleep();
  sleepers.wakes_up(kFirst);
  EXPECT_TRUE(sleepers.all_awake());
}

// A worker that falls asleep beside a thread that brings work, under the model checker. The
// forbidden outcome: the worker sleeps, no thread has claimed it, and there is work.
template <model::Weaken kWeaken>
model::Report falling_asleep_beside_work(bool by_name) {
  return model::explore(model::within(2, 2), [by_name](model::Execution& run) {
    struct Scene {
      Sleepers<model::Sync<kWeaken>> sleepers{3};
      model::Atomic<int, kWeaken> work;
      bool sleeps = false;
      bool woken = false;
    };
    auto scene = std::make_shared<Scene>();
    run.thread([scene] {
      scene->sleepers.falls_asleep(kSecond);
      scene->sleeps = scene->work.load(std::memory_order_relaxed) == 0;
      if (!scene->sleeps) scene->sleepers.wakes_up(kSecond);
    });
    run.thread([scene, by_name] {
      scene->work.store(1, std::memory_order_relaxed);
      scene->woken = by_name ? scene->sleepers.claim(kSecond)
                             : scene->sleepers.claim_one(kFirst, anybody) == 1;
    });
    run.thread([scene] {  // changes the count of those that are awake
      scene->sleepers.leaves();
      scene->sleepers.comes_back();
    });
    run.finally([scene, &run] {
      run.expect(!scene->sleeps || scene->woken, "asleep beside work");
    });
  });
}

TEST(Sleepers, nobody_sleeps_beside_work_that_was_brought) {
  for (const bool by_name : {true, false}) {
    const model::Report report = falling_asleep_beside_work<model::Weaken{}>(by_name);
    EXPECT_EQ(report.failure, "");
    EXPECT_GE(report.executions, 10u);
  }
}

TEST(Sleepers, somebody_would_without_the_fences) {
  constexpr model::Weaken kFences{.fences = true};
  EXPECT_NE(falling_asleep_beside_work<kFences>(true).failure, "");
  EXPECT_NE(falling_asleep_beside_work<kFences>(false).failure, "");
}

// Two threads bring a request each while two workers sleep. The forbidden outcome: both look at the
// mark of the same worker, and the one that does not get it wakes nobody.
template <model::Weaken kWeaken>
model::Report two_requests_beside_two_that_sleep() {
  return model::explore(model::within(2, 2), [](model::Execution& run) {
    struct Scene {
      Sleepers<model::Sync<kWeaken>> sleepers{3};
      std::array<uint32_t, 2> woken{};
    };
    auto scene = std::make_shared<Scene>();
    scene->sleepers.falls_asleep(kSecond);
    scene->sleepers.falls_asleep(kThird);
    for (uint32_t& woken : scene->woken) {
      run.thread([scene, &woken] { woken = scene->sleepers.claim_one(kFirst, anybody); });
    }
    run.finally([scene, &run] {
      const auto [one, other] = scene->woken;
      run.expect(std::min(one, other) == 1 && std::max(one, other) == 2, "a worker sleeps on");
    });
  });
}

TEST(Sleepers, who_loses_a_sleeper_to_another_wakes_the_next) {
  const model::Report report = two_requests_beside_two_that_sleep<model::Weaken{}>();
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 10u);
}

// Two workers sleep and wake, one of them where no thread may claim it, beside a thread that waits
// until one is awake. Forbidden outcome: that thread waits for ever.
template <model::Weaken kWeaken>
model::Report waiting_while_all_are_asleep() {
  return model::explore(model::within(3, 3), [](model::Execution& run) {
    auto sleepers = std::make_shared<Sleepers<model::Sync<kWeaken>>>(2);
    run.thread([sleepers] {
      sleepers->falls_asleep(kFirst);
      sleepers->wakes_up(kFirst);
    });
    run.thread([sleepers] {
      sleepers->leaves();
      sleepers->comes_back();
    });
    run.thread([sleepers] { sleepers->wait_while_all_asleep(); });
  });
}

TEST(Sleepers, who_waits_while_all_are_asleep_is_woken_by_the_first_that_wakes) {
  const model::Report report = waiting_while_all_are_asleep<model::Weaken{}>();
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 20u);
}

TEST(Sleepers, who_waits_could_be_forgotten_without_seq_cst) {
  constexpr model::Weaken kSeqCst{.seq_cst = true};
  EXPECT_NE(waiting_while_all_are_asleep<kSeqCst>().failure, "");
}

// For ThreadSanitizer: two workers sleep whenever there is nothing, two threads bring work.
TEST(Sleepers, all_work_is_done_by_workers_that_sleep_in_between) {
  constexpr int kEach = 2'000;
  Sleepers<> sleepers(2);
  std::atomic<int> work{0};
  std::atomic<int> done{0};
  std::array<std::atomic<uint32_t>, 2> bells{};
  const auto bring = [&] {
    for (int i = 0; i < kEach; ++i) {
      work.fetch_add(1, std::memory_order_relaxed);
      const uint32_t woken = sleepers.claim_one(kFirst, anybody);
      if (woken == Sleepers<>::kNobody) continue;
      bells[woken].fetch_add(1, std::memory_order_release);
      bells[woken].notify_one();
    }
  };
  const auto take = [&] {
    int left = work.load(std::memory_order_relaxed);
    while (left > 0 && !work.compare_exchange_weak(left, left - 1)) continue;
    return left > 0;
  };
  const auto serve = [&](WorkerId me) {
    while (done.load(std::memory_order_relaxed) < 2 * kEach) {
      const uint32_t rung = bells[me.value].load(std::memory_order_acquire);
      sleepers.falls_asleep(me);
      const bool found = take();
      // The last request done ends all sleeps, as no more come.
      if (!found && done.load() < 2 * kEach) bells[me.value].wait(rung, std::memory_order_acquire);
      sleepers.wakes_up(me);
      if (!found) continue;
      if (done.fetch_add(1) + 1 < 2 * kEach) continue;
      for (auto& bell : bells) {
        bell.fetch_add(1, std::memory_order_release);
        bell.notify_one();
      }
    }
  };
  std::thread first(serve, kFirst), second(serve, kSecond), third(bring), fourth(bring);
  for (std::thread* thread : {&first, &second, &third, &fourth}) thread->join();
  EXPECT_EQ(done.load(), 2 * kEach);
  EXPECT_EQ(work.load(), 0);
}

}  // namespace
}  // namespace rubato
