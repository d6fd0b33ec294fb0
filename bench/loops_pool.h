// SPDX-License-Identifier: Apache-2.0
//
// Loops of the caller's as pools: as many threads as workers, each of which waits for a descriptor
// and runs what it announces, as an event loop does. All share one executor, or each has its own.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/rubato.hpp>

#include "pools.h"

namespace rubato::bench {

enum class Loops { kShareOne, kHaveOneEach };

template <class J, Loops kLoops>
class LoopsPool final : public PoolOf<J> {
 public:
  explicit LoopsPool(const Settings& settings) {
    const uint32_t executors = kLoops == Loops::kShareOne ? 1 : settings.workers;
    const uint32_t loops = settings.workers / executors;
    for (uint32_t i = 0; i < executors; ++i) executors_.push_back(make(settings, loops));
    for (Executor& executor : executors_) {
      for (uint32_t loop = 0; loop < loops; ++loop) {
        threads_.emplace_back([&executor, loop] { serve(executor, loop); });
      }
    }
  }
  ~LoopsPool() override {
    for (Executor& executor : executors_) executor.stop();
    for (std::thread& thread : threads_) thread.join();
  }
  // To loops that have one each in turn.
  void submit(const J& job) override {
    Executor& executor = executors_[turn_++ % executors_.size()];
    while (!executor.execute([job] { job.run(); })) std::this_thread::yield();
  }

 private:
  static Executor make(const Settings& settings, uint32_t loops) {
    auto executor = Executor::create(
        {.scheduler = {.policy = settings.policy, .workers = loops}, .in_loop = true});
    if (executor.ok()) return std::move(*executor);
    std::fprintf(stderr, "%s\n", executor.error().c_str());
    std::exit(2);
  }
  static void serve(Executor& executor, uint32_t loop) {
    constexpr std::chrono::microseconds kBudget{200};
    LoopState state = LoopState::kIdle;
    while (state != LoopState::kStopped) {
      pollfd ready{executor.fd(loop), POLLIN, 0};
      if (state == LoopState::kIdle) ::poll(&ready, 1, -1);
      state = executor.run(kBudget, loop);
    }
  }

  std::vector<Executor> executors_;
  std::vector<std::thread> threads_;
  size_t turn_ = 0;
};

}  // namespace rubato::bench
