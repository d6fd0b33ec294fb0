// SPDX-License-Identifier: Apache-2.0
//
// Workers that park and come back, in virtual time: threads bring each of them work that it alone
// may do, and call it, beside an allocator that grants cores and asks for them. All work is done,
// soon after it was brought, and a core is never counted twice: what parked came back once.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "mechanism/clock/clock.h"
#include "mechanism/cpu/pause.h"
#include "overload/cores/rule.h"
#include "policy/testing/replay.h"
#include "runtime/core_control.h"
#include "virtual/testing/cores.h"
#include "virtual/testing/each_seed.h"
#include "virtual/world.h"

namespace rubato {
namespace {

struct Setting {
  explicit Setting(Prng& prng)
      : workers(2 + prng.below(7)),
        callers(1 + prng.below(3)),
        rounds(20 + prng.below(100)),
        gap(Nanos(100) * (int64_t{1} << prng.below(9))),
        cores(virt::testing::Cores::draw(prng, workers)) {
    world.seed = prng.next();
    world.end = Nanos::seconds(10);
    switch (prng.below(3)) {
      case 0: break;
      case 1: world.stall_places_one_in = 1u << prng.below(3); break;
      default:
        world.write_stall_one_in = 10u << prng.below(5);
        world.late_wake_up_one_in = 8;
        world.spurious_wake_up_one_in = 8;
    }
  }

  std::string describe() const {
    return std::to_string(workers) + " workers, " + std::to_string(callers) + " callers" +
           cores.describe();
  }

  uint32_t workers;
  uint32_t callers;
  uint32_t rounds;
  Nanos gap;
  virt::testing::Cores cores;
  virt::WorldOptions world;
};

class Parking {
 public:
  explicit Parking(const Setting& setting)
      : setting_(setting),
        control_(rule_of(setting), setting.workers, setting.cores.guaranteed, nullptr),
        inboxes_(setting.workers) {}

  void run(Prng& prng) {
    std::vector<std::thread> workers;
    for (uint32_t w = 0; w < setting_.workers; ++w) workers.emplace_back([this, w] { work({w}); });
    std::thread allocator([this] { allocate(); });
    std::vector<std::thread> callers;
    for (uint32_t c = 0; c < setting_.callers; ++c) {
      callers.emplace_back([this, seed = prng.next()] { bring(seed); });
    }
    for (std::thread& caller : callers) caller.join();
    wait_for_the_end();
    stopping_ = true;
    for (uint32_t w = 0; w < setting_.workers; ++w) control_.wake({w});
    for (std::thread& worker : workers) worker.join();
    allocator.join();
    const CoreControl::Counts counts = control_.counts();
    EXPECT_EQ(counts.parked, counts.grants + counts.self_unparks);
    EXPECT_EQ(counts.granted, setting_.workers);
  }

 private:
  // Of the work of one worker, once all has been brought.
  static constexpr Nanos kBound = Nanos::millis(1);

  static std::unique_ptr<overload::CoreRule> rule_of(const Setting& setting) {
    return overload::CoreRule::make(setting.cores.allocator, {setting.cores.settings.begin(),
                                    setting.cores.settings.end()}, setting.workers,
                                    kCoreTimeScale).value();
  }

  bool do_work(WorkerId worker) {
    const uint32_t found = inboxes_[worker.value].exchange(0);
    if (found > 0) virt::spend(Nanos(200) * found);
    done_ += found;
    return found > 0;
  }

  // As runtime/core_parking.h.
  void work(WorkerId worker) {
    Instant idle_since = now();
    while (!stopping_) {
      if (do_work(worker)) {
        control_.resumed(worker);
        idle_since = now();
      } else if (control_.is_guaranteed(worker) ||
                 !control_.should_park(worker, now() - idle_since)) {
        cpu_pause();
      } else {
        control_.park(worker);
        while (control_.repark(worker)) {
          if (inboxes_[worker.value] > 0 || stopping_) break;
          control_.sleep(worker);
        }
        control_.unpark(worker);
        idle_since = now();
      }
    }
  }

  void bring(uint64_t seed) {
    Prng prng(seed);
    for (uint32_t i = 0; i < setting_.rounds; ++i) {
      const WorkerId worker{prng.below(setting_.workers)};
      ++brought_;
      ++inboxes_[worker.value];
      control_.wake(worker);
      virt::spend(Nanos(prng.below(static_cast<uint32_t>(setting_.gap.count()))));
    }
  }

  void allocate() {
    while (!stopping_) {
      const auto sample_of = [this](WorkerId worker) {
        CoreControl::WorkerSample sample;
        sample.finished = done_;
        sample.waits = inboxes_[worker.value] > 0;
        return sample;
      };
      if (control_.due(now())) control_.look(now(), sample_of, false);
      virt::spend(Nanos(300));
    }
  }

  void wait_for_the_end() {
    const Instant begin = now();
    const Nanos faults = virt::faults_so_far() - std::max(virt::faults_over() - begin, Nanos());
    const Nanos service = Nanos(200) * static_cast<int64_t>(brought_);
    while (done_ < brought_ &&
           now() - begin < kBound + service + (virt::faults_so_far() - faults) * 2) {
      virt::spend(Nanos::micros(1));
    }
    EXPECT_EQ(done_, brought_);
  }

  const Setting& setting_;
  CoreControl control_;
  std::vector<std::atomic<uint32_t>> inboxes_;  // by worker: work that it alone may do
  std::atomic<uint64_t> brought_{0};
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> stopping_{false};
};

TEST(VirtualCores, all_work_is_done_and_no_core_is_counted_twice) {
  virt::testing::each_seed(100, [](uint64_t seed) {
    Prng prng(seed);
    const Setting setting(prng);
    const testing::Replay replay(seed, setting.describe());
    virt::run(setting.world, [&] { Parking(setting).run(prng); });
  });
}

}  // namespace
}  // namespace rubato
