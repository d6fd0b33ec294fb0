// SPDX-License-Identifier: Apache-2.0
#include "planning/parallel.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace rubato::planning {
namespace {

constexpr std::chrono::milliseconds kRedraw{250};

// Each task has one owner; `done_of_` is relaxed, as are `stop_` and `failed_`: nothing else is
// read because of them. What tasks wrote is published by the join of their threads.
class Pool {
 public:
  Pool(size_t count, const std::atomic<bool>& stop,
       const std::function<bool(size_t, const TaskProgress&)>& run)
      : count_(count),
        stop_(stop),
        run_(run),
        done_of_(std::make_unique<std::atomic<double>[]>(count)) {}

  void run(uint32_t threads, const std::function<void(double)>& tick) {
    std::vector<std::jthread> running;
    const size_t wanted = std::min<size_t>(threads, count_);
    for (size_t i = 0; i < wanted; ++i) running.emplace_back([this] { work(); });
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kRedraw, [&] { return ended_ == wanted; })) tick(share_done());
  }

 private:
  void work() {
    for (size_t i = 0; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) {
      if (i > 0 && given_up()) break;
      const TaskProgress progress = [this, i](double done) {
        done_of_[i].store(done, std::memory_order_relaxed);
        return !given_up();
      };
      if (!run_(i, progress)) failed_.store(true, std::memory_order_relaxed);
      done_of_[i].store(1, std::memory_order_relaxed);
    }
    const std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_one();
  }

  bool given_up() const {
    return stop_.load(std::memory_order_relaxed) || failed_.load(std::memory_order_relaxed);
  }

  double share_done() const {
    double sum = 0;
    for (size_t i = 0; i < count_; ++i) sum += done_of_[i].load(std::memory_order_relaxed);
    return sum / static_cast<double>(count_);
  }

  size_t count_;
  const std::atomic<bool>& stop_;
  const std::function<bool(size_t, const TaskProgress&)>& run_;
  std::unique_ptr<std::atomic<double>[]> done_of_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t ended_ = 0;
};

}  // namespace

uint32_t processors() { return std::max(1u, std::thread::hardware_concurrency()); }

void run_parallel(size_t count, uint32_t threads, const std::atomic<bool>& stop,
                  const std::function<bool(size_t, const TaskProgress&)>& run,
                  const std::function<void(double)>& tick) {
  Pool(count, stop, run).run(threads, tick);
}

}  // namespace rubato::planning
