// SPDX-License-Identifier: Apache-2.0
//
// Partner: a thread on another CPU that does what it is told, step by step, so that lines of memory
// can be made its own. Owned and driven by one thread.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "mechanism/cpu/pin.h"
#include "mechanism/cpu/pause.h"

namespace rubato::calibrate {

// Waits busily, but lets others have the CPU if it takes long: there may be only one.
template <class Condition>
void spin_until(Condition&& holds) {
  constexpr int kSpinsBeforeYield = 10'000;
  for (int spins = 0; !holds(); ++spins) {
    spins < kSpinsBeforeYield ? cpu_pause() : std::this_thread::yield();
  }
}

class Partner {
 public:
  explicit Partner(uint32_t cpu) : thread_([this, cpu] { work(cpu); }) {}
  ~Partner() {
    start(nullptr);
    thread_.join();
  }
  Partner(const Partner&) = delete;
  Partner& operator=(const Partner&) = delete;

  // Requires that the step before has been waited for.
  void start(std::function<void()> step) {
    step_ = std::move(step);
    asked_.store(asked_.load(std::memory_order_relaxed) + 1, std::memory_order_release);  // A
  }
  void wait() {
    const uint64_t asked = asked_.load(std::memory_order_relaxed);
    spin_until([&] { return done_.load(std::memory_order_acquire) == asked; });  // B
  }
  void run(std::function<void()> step) {
    start(std::move(step));
    wait();
  }

 private:
  // A: start() releases step_ to the thread. B: the thread releases what the step did to wait().
  void work(uint32_t cpu);

  std::function<void()> step_;
  std::atomic<uint64_t> asked_{0};
  std::atomic<uint64_t> done_{0};
  std::thread thread_;
};

}  // namespace rubato::calibrate
