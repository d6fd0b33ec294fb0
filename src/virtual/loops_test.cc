// SPDX-License-Identifier: Apache-2.0
//
// An executor in several loops, in virtual time, under every live policy: each loop sleeps on its
// descriptor alone, so what no wake-up tells it is missed for ever. Tasks compute, sleep, wait for
// descriptors and submit others, as loops do between their turns; a stop comes while some loops
// sleep, are away or have not begun. Each task ends once, soon, and each loop is told the stop.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "executor/executor.h"
#include "mechanism/clock/clock.h"
#include "policy/testing/replay.h"
#include "runtime/testing/live_policies.h"
#include "runtime/waiting.h"
#include "virtual/testing/compute.h"
#include "virtual/testing/cores.h"
#include "virtual/testing/each_seed.h"
#include "virtual/world.h"

namespace rubato {
namespace {

using testing::LivePolicy;
using virt::testing::Cores;

struct Setting {
  Setting(const LivePolicy& live, Prng& prng)
      : policy(live.name),
        loops(2 + prng.below(5)),
        tasks(prng.below(40)),
        budget(Nanos::micros(20 + prng.below(300))),
        joins(prng.below(2) == 0),
        stops_late(prng.below(2) == 0),
        meets(live.helps && prng.below(2) == 0) {
    if (!meets && prng.below(4) == 0) cores = Cores::draw(prng, loops);
    world.seed = prng.next();
    world.end = Nanos::seconds(60);
    if (prng.below(3) == 0) return;
    world.stall_one_in = 2'000u << prng.below(6);
    world.late_wake_up_one_in = 4;
    world.write_stall_one_in = 20u << prng.below(6);
    if (prng.below(2) == 0) world.stall_places_one_in = 10;
  }

  std::string describe() const {
    return policy + ", " + std::to_string(loops) + " loops, " + std::to_string(tasks) + " tasks" +
           (joins ? ", joins" : "") + (stops_late ? ", stops late" : "") +
           (meets ? ", meets" : "") + cores.describe();
  }

  std::string policy;
  uint32_t loops;
  uint32_t tasks;
  Nanos budget;
  bool joins;       // a thread without a loop waits for the end, too
  bool stops_late;  // when all tasks have ended
  bool meets;       // at first, tasks hold all loops until the last one has one
  Cores cores;
  virt::WorldOptions world;
};

class Storm {
 public:
  Storm(const Setting& setting, Prng& prng) : setting_(setting), prng_(prng) {}

  void run() {
    ExecutorOptions options;
    options.runtime.workers = setting_.loops;
    options.runtime.policy = setting_.policy;
    options.runtime.max_fibers = 256;
    options.runtime.drain_limit = kDrainLimit;
    options.in_loop = true;
    setting_.cores.add_to(options.runtime);
    ASSERT_TRUE(fit(options).ok());
    Executor executor(options);
    const Status started = executor.start(options);
    ASSERT_TRUE(started.ok()) << started.error();
    executor_ = &executor;
    event_ = ::eventfd(0, EFD_NONBLOCK);
    std::vector<std::thread> threads;
    for (uint32_t loop = 0; loop < setting_.loops; ++loop) {
      threads.emplace_back([this, loop, seed = prng_.next()] { run_loop(loop, seed); });
    }
    if (setting_.meets) meet();
    for (uint32_t i = 0; i < setting_.tasks; ++i) {
      submit(prng_);
      if (prng_.below(2) == 0) virt::spend(Nanos(prng_.below(20'000)));
    }
    while (setting_.stops_late && ended_ < submitted_) virt::spend(Nanos::micros(20));
    const Instant begin = now();
    executor_->stop();
    const uint64_t one = 1;
    EXPECT_EQ(::write(event_, &one, sizeof one), 8);
    static_cast<void>(setting_.joins && executor_->join());
    for (std::thread& thread : threads) thread.join();
    EXPECT_LT((now() - begin).count(), kDrainLimit.count() / 2);
    EXPECT_TRUE(executor_->join());
    executor_->end_left();  // a loop's that was submitting as the stop came to its end
    EXPECT_EQ(ended_, submitted_);
    // Of these one that a worker had taken in is not given back.
    EXPECT_LE(executor_->unfinished(), left_);
    ::close(event_);
  }

 private:
  static constexpr Nanos kDrainLimit = Nanos::seconds(20);
  // Loops submit no more then: there would be more and more where turns are as short as tasks.
  static constexpr uint32_t kMostTasks = 150;

  struct Closure {
    Storm* storm;
    uint64_t seed;
  };

  // Until the loop is told the stop.
  void run_loop(uint32_t loop, uint64_t seed) {
    LoopQueue& mine = *executor_->datapath().loops()[loop];
    Prng prng(seed);
    if (prng.below(4) == 0) virt::spend(Nanos(prng.below(100'000)));
    for (;;) {
      const auto state = executor_->run(setting_.budget, mine);
      if (state == LoopState::kStopped) return;
      if (submitted_ < kMostTasks && prng.below(8) == 0) submit(prng);
      if (prng.below(4) == 0) virt::spend(Nanos(prng.below(50'000)));
      pollfd p{mine.fd(), POLLIN, 0};
      if (state != LoopState::kMore) ::poll(&p, 1, -1);
    }
  }

  void submit(Prng& prng) {
    TaskAttributes attributes;
    attributes.type = prng.below(4);
    attributes.is_long = prng.below(4) == 0;
    Task* const task = executor_->reserve(attributes);
    if (task == nullptr) return;  // it stops
    ++submitted_;
    ::new (task->closure) Closure{this, prng.next()};
    if (prng.below(8) != 0) return executor_->submit(*task, &run_one, &end_one);
    task->done = &end_one;
    executor_->discard(*task);
  }

  void meet() {
    for (uint32_t i = 0; i < setting_.loops; ++i) {
      Task* const task = executor_->reserve({});
      ASSERT_NE(task, nullptr);
      ++submitted_;
      ::new (task->closure) Closure{this, 0};
      executor_->submit(*task, &hold_loop, &end_one);
      if (prng_.below(2) == 0) virt::spend(Nanos(prng_.below(20'000)));
    }
    while (ended_ < setting_.loops) virt::spend(Nanos::micros(20));
  }

  // No other one has its loop before the last one has one.
  static int hold_loop(void* closure) {
    Storm& storm = *static_cast<Closure*>(closure)->storm;
    ++storm.met_;
    while (storm.met_ < storm.setting_.loops) virt::spend(Nanos::micros(10));
    return 0;
  }

  static int run_one(void* closure) {
    const Closure& self = *static_cast<Closure*>(closure);
    Prng prng(self.seed);
    switch (prng.below(5)) {
      case 0: self.storm->wait_for_time(Nanos(prng.below(100'000))); break;
      case 1: self.storm->wait_for_event(prng); break;
      case 2: virt::spend(Nanos(prng.below(300'000))); break;
      default: virt::testing::compute(Nanos(prng.below(200'000)), Nanos::micros(1)); break;
    }
    if (prng.below(3) == 0) self.storm->submit(prng);
    return 0;
  }
  static void end_one(void* closure, int outcome, int64_t) {
    Storm& storm = *static_cast<Closure*>(closure)->storm;
    if (outcome == static_cast<int>(TaskOutcome::kCancelled)) ++storm.left_;
    ++storm.ended_;
  }

  void wait_for_time(Nanos time) {
    EXPECT_EQ(never_.acquire({now() + time}), Wake::kTimeout);
  }
  // That of the stop, or of a while.
  void wait_for_event(Prng& prng) {
    uint32_t came = 0;
    int error = 0;
    const bool limited = prng.below(2) == 0 || setting_.stops_late;
    const WaitLimit limit{limited ? now() + Nanos(prng.below(300'000)) : Instant::never()};
    EXPECT_NE(waiting::wait_fd(event_, POLLIN, limit, came, error), Wake::kCancelled);
  }

  const Setting& setting_;
  Prng& prng_;
  Executor* executor_ = nullptr;
  int event_ = -1;
  waiting::Semaphore never_;
  std::atomic<uint32_t> submitted_{0};
  std::atomic<uint32_t> ended_{0};
  std::atomic<uint32_t> left_{0};  // of these, cancelled
  std::atomic<uint32_t> met_{0};
};

class VirtualLoops : public ::testing::TestWithParam<LivePolicy> {};

INSTANTIATE_TEST_SUITE_P(EveryPolicy, VirtualLoops, ::testing::ValuesIn(testing::all_live()),
                         [](const auto& param) { return testing::case_name(param.param.name); });

TEST_P(VirtualLoops, none_that_sleeps_misses_a_task_or_the_end_of_a_stop) {
  virt::testing::each_seed(10, [](uint64_t seed) {
    Prng prng = virt::testing::prng_of(seed, GetParam().name);
    const Setting setting(GetParam(), prng);
    const testing::Replay replay(seed, setting.describe());
    virt::run(setting.world, [&] { Storm(setting, prng).run(); });
  });
}

}  // namespace
}  // namespace rubato
