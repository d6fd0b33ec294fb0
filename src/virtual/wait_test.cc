// SPDX-License-Identifier: Apache-2.0
//
// Waits in virtual time, under every live policy: tasks that sleep, lock, wait for permits and for
// helper threads, are cancelled and expire, with threads beside them, with faults and without, and
// a stop under load. Each task is told its end once, a mutex has one holder, no permit is lost,
// nobody who waits is forgotten, and all that waited came back.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "executor/executor.h"
#include "mechanism/clock/clock.h"
#include "policy/testing/replay.h"
#include "runtime/testing/live_policies.h"
#include "runtime/waiting.h"
#include "virtual/testing/each_seed.h"
#include "virtual/world.h"

namespace rubato {
namespace {

using testing::LivePolicy;

struct Setting {
  Setting(const LivePolicy& live, Prng& prng)
      : policy(live.name),
        workers(1u << prng.below(4)),
        tasks(10 + prng.below(60)),
        cancels(prng.below(2) == 0),
        stops_under_load(prng.below(3) == 0) {
    world.seed = prng.next();
    world.end = Nanos::seconds(60);
    if (prng.below(4) == 0) max_fibers = workers + 2 + prng.below(8);
    if (prng.below(2) == 0) return;
    world.stall_one_in = 2'000u << prng.below(6);
    world.late_wake_up_one_in = 4;
    world.spurious_wake_up_one_in = 8;
    world.write_stall_one_in = 20u << prng.below(6);
  }

  std::string describe() const {
    return policy + ", " + std::to_string(workers) + " workers, " + std::to_string(tasks) +
           " tasks, fibers " + std::to_string(max_fibers) + (cancels ? ", cancels" : "") +
           (stops_under_load ? ", stop under load" : "");
  }

  std::string policy;
  uint32_t workers;
  uint32_t tasks;
  uint32_t max_fibers = 256;
  bool cancels;
  bool stops_under_load;
  virt::WorldOptions world;
};

class Storm {
 public:
  Storm(const Setting& setting, Prng& prng) : setting_(setting), prng_(prng) {
    permits_.release(kPermits);
  }

  void run() {
    ExecutorOptions options;
    options.runtime.workers = setting_.workers;
    options.runtime.policy = setting_.policy;
    options.runtime.max_fibers = setting_.max_fibers;
    options.runtime.drain_limit = Nanos::seconds(20);
    Executor executor(options);
    const Status started = executor.start(options);
    ASSERT_TRUE(started.ok()) << started.error();
    executor_ = &executor;
    std::thread beside([this] { beside_them(); });
    for (uint32_t i = 0; i < setting_.tasks; ++i) submit(i);
    beside.join();
    // Those that wait for a notification get one, unless they have been told to end.
    while (!setting_.stops_under_load && ended_ < setting_.tasks) {
      notify();
      virt::spend(Nanos::micros(50));
    }
    if (setting_.stops_under_load) changed_for_all_.close();
    const Instant begin = now();
    executor_->stop();
    EXPECT_TRUE(executor_->join());
    EXPECT_LT((now() - begin).count(), Nanos::seconds(20).count());
    check();
  }

 private:
  static constexpr uint64_t kPermits = 2;

  struct Closure {
    Storm* storm;
    uint32_t number;
    uint32_t kind;
    Nanos time;
  };

  void submit(uint32_t number) {
    TaskAttributes attributes;
    attributes.type = prng_.below(4);
    attributes.is_long = prng_.below(4) == 0;
    if (prng_.below(5) == 0) attributes.deadline = Nanos(1 + prng_.below(200'000));
    Cancellation* const cancellation = setting_.cancels ? new Cancellation : nullptr;
    attributes.cancellation = cancellation;
    Task* const task = executor_->reserve(attributes);
    ASSERT_NE(task, nullptr);
    ::new (task->closure) Closure{this, number, prng_.below(6), Nanos(prng_.below(100'000))};
    executor_->submit(*task, &run_one, &end_one);
    if (prng_.below(2) == 0) virt::spend(Nanos(prng_.below(20'000)));
    if (cancellation == nullptr) return;
    if (prng_.below(2) == 0) cancellation->cancel();
    cancellation->leave();
  }

  static int run_one(void* closure) {
    const Closure& self = *static_cast<Closure*>(closure);
    for (int step = 0; step < 3; ++step) {
      if (self.storm->wait(self.kind + static_cast<uint32_t>(step), self.time)) return 1;
    }
    return 0;
  }
  static void end_one(void* closure, int, int64_t) {
    static_cast<Closure*>(closure)->storm->ended_.fetch_add(1);
  }

  // True: the task is to end.
  bool wait(uint32_t kind, Nanos time) {
    const WaitLimit limit{now() + time};
    Wake why = Wake::kWoken;
    switch (kind % 6) {
      case 0: why = waiting::sleep(limit); break;
      case 1: why = hold(limit); break;
      case 2: why = hold({}); break;
      case 3:
        why = permits_.acquire(limit);
        if (why == Wake::kWoken) {
          Waiter::yield();
          permits_.release(1);
        }
        break;
      case 4: why = changed_for_all_.acquire({}); break;
      default: waiting::offload([](void*) { virt::spend(Nanos::micros(5)); }, nullptr); break;
    }
    return why == Wake::kCancelled;
  }

  Wake hold(const WaitLimit& limit) {
    const Wake why = mutex_.lock(limit);
    if (why != Wake::kWoken) return why;
    EXPECT_EQ(++inside_, 1);
    Waiter::yield();
    --inside_;
    EXPECT_NE(changed_.wait(mutex_, {now() + Nanos::micros(20)}), Wake::kNone);
    EXPECT_EQ(++inside_, 1);
    --inside_;
    mutex_.unlock();
    return why;
  }

  void notify() {
    changed_.notify(true);
    changed_for_all_.release(1);
  }

  // A thread that runs no task takes part.
  void beside_them() {
    for (int i = 0; i < 10; ++i) {
      static_cast<void>(hold({}));
      notify();
      static_cast<void>(permits_.acquire({now() + Nanos::micros(30)}) == Wake::kWoken
                            ? permits_.release(1)
                            : void());
    }
  }

  void check() {
    EXPECT_EQ(ended_, setting_.tasks);
    EXPECT_EQ(inside_, 0);
    EXPECT_TRUE(mutex_.try_lock());
    for (uint64_t i = 0; i < kPermits; ++i) EXPECT_TRUE(permits_.try_acquire());
    EXPECT_FALSE(permits_.try_acquire());
    const RuntimeStats stats = executor_->runtime().stats();
    EXPECT_EQ(stats.waits, stats.came_back);
    EXPECT_EQ(stats.preemptions + stats.lock_yields + stats.came_back, stats.resumed);
    for (const QueueDepth& queue : executor_->runtime().queue_depths()) EXPECT_EQ(queue.depth, 0u);
  }

  const Setting& setting_;
  Prng& prng_;
  waiting::Mutex mutex_;
  waiting::Condition changed_;
  waiting::Semaphore permits_;
  waiting::Semaphore changed_for_all_;
  int inside_ = 0;
  std::atomic<uint32_t> ended_{0};
  Executor* executor_ = nullptr;
};

class VirtualWaits : public ::testing::TestWithParam<LivePolicy> {};

INSTANTIATE_TEST_SUITE_P(EveryPolicy, VirtualWaits, ::testing::ValuesIn(testing::all_live()),
                         [](const auto& param) { return testing::case_name(param.param.name); });

TEST_P(VirtualWaits, nobody_who_waits_is_forgotten_nor_woken_twice) {
  virt::testing::each_seed(10, [](uint64_t seed) {
    Prng prng = virt::testing::prng_of(seed, GetParam().name);
    const Setting setting(GetParam(), prng);
    const testing::Replay replay(seed, setting.describe());
    virt::run(setting.world, [&] { Storm(setting, prng).run(); });
  });
}

}  // namespace
}  // namespace rubato
