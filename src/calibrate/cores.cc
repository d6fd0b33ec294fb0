// SPDX-License-Identifier: Apache-2.0
//
// A core that changes hands: a parked worker's wake-up, what parking takes of its core, and the
// placing of its thread on other CPUs, as by a manager of cores (apps/process/core_placement.h).
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <thread>

#include "calibrate/measurements.h"
#include "calibrate/partner.h"
#include "mechanism/clock/clock.h"
#include "runtime/core_slot.h"

namespace rubato::calibrate {
namespace {

// Time in which a thread that has parked is sure to have left its CPU.
constexpr Nanos kAsleepAfter = Nanos::micros(30);

double thread_cpu_ns() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e9 + static_cast<double>(used.tv_nsec);
}

// A worker that does nothing but park. The figures of a round are its own until the count of rounds
// tells that it is over: released there, acquired by who waits for it.
class Parker {
 public:
  explicit Parker(uint32_t cpu) : thread_([this, cpu] { park(cpu); }) {}
  ~Parker() {
    over_.store(true, std::memory_order_relaxed);
    wake();
    thread_.join();
  }
  Parker(const Parker&) = delete;
  Parker& operator=(const Parker&) = delete;

  pid_t wait_until_asleep() {
    spin_until([&] { return slot_.asleep(); });
    const Instant until = now() + kAsleepAfter;
    spin_until([&] { return now() >= until; });
    return id_.load(std::memory_order_relaxed);
  }
  void wake() {
    slot_.grant();
    slot_.notify();
  }
  // Requires a wake(): waits until it has been seen.
  void wait_for_round(uint64_t round) {
    spin_until([&] { return rounds_.load(std::memory_order_acquire) == round; });
  }
  uint64_t rounds() const { return rounds_.load(std::memory_order_acquire); }
  uint64_t woken_at() const { return woken_at_; }
  double cpu_ns() const { return cpu_ns_; }

 private:
  void park(uint32_t cpu) {
    static_cast<void>(pin_this_thread(cpu).ok());
    id_.store(::gettid(), std::memory_order_relaxed);
    while (!over_.load(std::memory_order_relaxed)) {
      const double before = thread_cpu_ns();
      slot_.park();
      while (slot_.asleep()) slot_.sleep();
      woken_at_ = Meter::stamp();
      cpu_ns_ = thread_cpu_ns() - before;
      rounds_.fetch_add(1, std::memory_order_release);
    }
  }

  CoreSlot<> slot_;
  std::atomic<pid_t> id_{0};
  std::atomic<bool> over_{false};
  std::atomic<uint64_t> rounds_{0};
  uint64_t woken_at_ = 0;
  double cpu_ns_ = 0;
  std::thread thread_;
};

// Both at once: a round is a wake-up and the parking before it.
void measure_parking(const Meter& meter, Parker& parker, Samples& samples) {
  Collector wakes(meter);
  Collector parks(meter);
  while (wakes.more()) {
    parker.wait_until_asleep();
    const uint64_t round = parker.rounds() + 1;
    const uint64_t from = Meter::stamp();
    parker.wake();
    parker.wait_for_round(round);
    wakes.add(meter.elapsed_ns(from, parker.woken_at()), 1);
    parks.add(parker.cpu_ns(), 1);
  }
  samples[Operation::kWakeCore] = wakes.sample();
  samples[Operation::kParkCore] = parks.sample();
}

}  // namespace

void measure_cores(const Meter& meter, const Place& place, Samples& samples) {
  if (!place.two()) return;
  const Pinned pinned(place);
  Parker parker(place.there());
  measure_parking(meter, parker, samples);
  const pid_t thread = parker.wait_until_asleep();
  cpu_set_t one;
  cpu_set_t both;
  CPU_ZERO(&one);
  CPU_SET(place.there(), &one);
  CPU_ZERO(&both);
  for (const uint32_t cpu : {place.here(), place.there()}) CPU_SET(cpu, &both);
  samples[Operation::kPlaceThread] = meter.measure(kBatch, [] {}, [&] {
    for (uint32_t i = 0; i < kBatch; ++i) {
      ::sched_setaffinity(thread, sizeof both, i % 2 == 0 ? &both : &one);
    }
  });
}

}  // namespace rubato::calibrate
