// SPDX-License-Identifier: Apache-2.0
#include "runtime/core_slot.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "mechanism/queue/testing/model.h"

namespace rubato {
namespace {

TEST(CoreSlot, a_parked_worker_is_granted_or_woken_before_it_unparks) {
  CoreSlot<> slot;
  EXPECT_TRUE(slot.has_core());
  EXPECT_FALSE(slot.wake());  // it is awake
  slot.park();
  EXPECT_FALSE(slot.has_core());
  EXPECT_TRUE(slot.asleep());
  EXPECT_TRUE(slot.wake());
  EXPECT_FALSE(slot.wake());  // once is enough
  EXPECT_FALSE(slot.asleep());
  EXPECT_TRUE(slot.unpark());
  slot.park();
  EXPECT_TRUE(slot.grant());
  EXPECT_FALSE(slot.unpark());
}

TEST(CoreSlot, a_worker_asked_to_park_keeps_its_core_until_it_does) {
  CoreSlot<> slot;
  EXPECT_TRUE(slot.request_park());
  EXPECT_FALSE(slot.request_park());
  EXPECT_TRUE(slot.has_core());
  EXPECT_EQ(slot.get(), CoreState::kParkRequested);
  EXPECT_FALSE(slot.grant());  // and is told otherwise
  EXPECT_EQ(slot.get(), CoreState::kGranted);
  slot.park();
  EXPECT_FALSE(slot.request_park());
}

// A worker that parks beside threads that have work for it, under the model checker. `missed` is
// the forbidden outcome: the worker sleeps, and there is work.
template <model::Weaken kWeaken>
struct Scene {
  using Sync = model::Sync<kWeaken>;
  CoreSlot<Sync> slot;
  model::Atomic<int, kWeaken> work;
  bool sleeps = false;
  bool woken = false;

  void park_and_look() {
    slot.park();
    if (work.load(std::memory_order_relaxed) != 0) {
      slot.unpark();
    } else {
      sleeps = true;  // if the word still says so
    }
  }
  void bring_work() {
    work.store(1, std::memory_order_relaxed);
    woken = slot.wake() || woken;
  }
};

template <model::Weaken kWeaken>
model::Report parking_beside_a_waker_and_a_controller() {
  return model::explore({2, 2}, [](model::Execution& run) {
    auto scene = std::make_shared<Scene<kWeaken>>();
    run.thread([scene] { scene->park_and_look(); });
    run.thread([scene] { scene->bring_work(); });
    run.thread([scene] { scene->slot.request_park(); });
    run.finally([scene, &run] {
      run.expect(!(scene->sleeps && scene->slot.asleep()), "asleep beside work");
      run.expect(!scene->woken || scene->slot.get() != CoreState::kParked, "woken in vain");
    });
  });
}

TEST(CoreSlot, never_sleeps_beside_work_that_it_was_called_for) {
  const model::Report report = parking_beside_a_waker_and_a_controller<model::Weaken{}>();
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 100u);
}

TEST(CoreSlot, would_sleep_beside_work_without_its_ordering) {
  constexpr model::Weaken kExchanges{false, false, true};
  EXPECT_NE(parking_beside_a_waker_and_a_controller<kExchanges>().failure, "");
}

// A worker that sleeps as in runtime/core_parking.h, beside a thread that brings it work or grants
// it its core, and another that calls it for nothing. Forbidden outcome: it sleeps for ever.
template <model::Weaken kWeaken>
model::Report parked_until(bool granted) {
  return model::explore(model::within(2, 2), [granted](model::Execution& run) {
    auto scene = std::make_shared<Scene<kWeaken>>();
    run.thread([scene] {
      scene->slot.park();
      while (scene->slot.repark() && scene->work.load(std::memory_order_relaxed) == 0) {
        scene->slot.sleep();
      }
      scene->slot.unpark();
    });
    run.thread([scene, granted, &run] {
      if (granted) {
        while (scene->slot.has_core()) run.wait();
        if (scene->slot.grant()) scene->slot.notify();
      } else {
        scene->bring_work();
        if (scene->woken) scene->slot.notify();
      }
    });
    run.thread([scene] {
      if (scene->slot.wake()) scene->slot.notify();
    });
    run.finally([scene, &run] {
      run.expect(scene->slot.get() == CoreState::kGranted, "without its core");
    });
  });
}

TEST(CoreSlot, sleeps_until_there_is_work_or_its_core_and_no_longer) {
  for (const bool granted : {false, true}) {
    const model::Report report = parked_until<model::Weaken{}>(granted);
    EXPECT_EQ(report.failure, "");
    EXPECT_GE(report.executions, 50u);
  }
}

TEST(CoreSlot, could_sleep_for_ever_without_seq_cst) {
  constexpr model::Weaken kSeqCst{.seq_cst = true};
  EXPECT_NE(parked_until<kSeqCst>(false).failure, "");
  EXPECT_NE(parked_until<kSeqCst>(true).failure, "");
}

// For ThreadSanitizer: a worker parks again and again while two threads bring it work.
TEST(CoreSlot, finds_all_work_that_two_threads_bring) {
  constexpr int kEach = 2'000;
  CoreSlot<> slot;
  std::atomic<int> work{0};
  int plain = 0;  // handed over with the calls
  std::atomic_flag turn{};
  const auto bring = [&] {
    for (int i = 0; i < kEach; ++i) {
      while (turn.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
      ++plain;
      turn.clear(std::memory_order_release);
      work.fetch_add(1, std::memory_order_relaxed);
      if (slot.wake()) slot.notify();
    }
  };
  std::thread first(bring);
  std::thread second(bring);
  for (int done = 0; done < 2 * kEach;) {
    slot.park();
    const int found = work.exchange(0, std::memory_order_relaxed);
    if (found == 0) {
      slot.sleep();
    }
    slot.unpark();
    done += found;
  }
  first.join();
  second.join();
  EXPECT_EQ(plain, 2 * kEach);
}

}  // namespace
}  // namespace rubato
