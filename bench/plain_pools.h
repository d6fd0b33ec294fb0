// SPDX-License-Identifier: Apache-2.0
//
// The two pools that every comparison has: an executor, and what one writes in an hour, a lock, a
// deque and a condition variable.
#pragma once

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/rubato.hpp>

#include "pools.h"

namespace rubato::bench {

inline Executor make_executor(const Settings& settings) {
  ExecutorOptions options;
  options.scheduler.policy = settings.policy;
  options.scheduler.workers = settings.workers;
  auto executor = Executor::create(options);
  if (executor.ok()) return std::move(*executor);
  std::fprintf(stderr, "%s\n", executor.error().c_str());
  std::exit(2);
}

template <class J>
class RubatoPool final : public PoolOf<J> {
 public:
  explicit RubatoPool(const Settings& settings) : executor_(make_executor(settings)) {}
  void submit(const J& job) override {
    while (!executor_.execute([job] { job.run(); })) std::this_thread::yield();
  }

 private:
  Executor executor_;
};

template <class J>
class MutexPool final : public PoolOf<J> {
 public:
  explicit MutexPool(const Settings& settings) {
    for (uint32_t i = 0; i < settings.workers; ++i) threads_.emplace_back([this] { work(); });
  }
  ~MutexPool() override {
    {
      const std::scoped_lock lock(mutex_);
      stops_ = true;
    }
    more_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void submit(const J& job) override {
    {
      const std::scoped_lock lock(mutex_);
      jobs_.emplace_back([job] { job.run(); });
    }
    more_.notify_one();
  }

 private:
  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      more_.wait(lock, [this] { return stops_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
    }
  }

  std::mutex mutex_;  // guards jobs_ and stops_
  std::condition_variable more_;
  std::deque<std::function<void()>> jobs_;
  bool stops_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace rubato::bench
