// SPDX-License-Identifier: Apache-2.0
//
// TaskPool: the memory of an executor's tasks, made when they are first needed and used again: at
// most so many, and one at a time beyond that for work that is not to be refused. take() allocates
// only when more tasks are out than ever before; memory that cannot be had is a refusal. Any
// thread; callers are not to be preempted within a call.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "executor/task.h"
#include "mechanism/queue/mpmc_queue.h"

namespace rubato {

class TaskPool {
 public:
  explicit TaskPool(uint32_t most) : most_(most), free_(std::bit_ceil(most)) {}

  // Null = none is free; take() may make one.
  Task* take_free() {
    Task* task = nullptr;
    return free_.take(task) ? task : nullptr;
  }
  // Null = as many tasks as there may be are out.
  Task* take() {
    Task* task = nullptr;
    if (free_.take(task)) [[likely]] return task;
    return made_.load(std::memory_order_relaxed) < most_ ? make() : nullptr;
  }
  // Null = there is no memory.
  Task* take_beyond() {
    Task* task = take();
    return task != nullptr ? task : make_one();
  }
  // The queue has room for every task below the bound, but a taker may not be through with a slot.
  void give_back(Task& task) {
    if (task.beyond_bound) [[unlikely]] return destroy(task);
    task.renew();
    for (uint32_t tries = 0; !free_.put(&task); ++tries) StdSync::wait(tries);
  }

  // Tasks that are out now; more while take() makes some.
  uint64_t taken() const {
    return made_.load(std::memory_order_relaxed) - free_.depth() +
           beyond_.load(std::memory_order_relaxed);
  }

  // Every task ever made; while no other thread uses the pool. `visit` may take tasks, which are
  // visited or not.
  template <class F>
  void for_each(F&& visit) {
    std::vector<Task*> singles;
    for (auto& [task, owned] : singles_) singles.push_back(task);
    for (size_t at = 0; at < slabs_.size(); ++at) {
      for (uint32_t i = 0; i < slabs_[at].count; ++i) visit(slabs_[at].tasks[i]);
    }
    for (Task* task : singles) visit(*task);
  }

 private:
  static constexpr uint32_t kSlab = 64;

  struct Slab {
    std::unique_ptr<Task[]> tasks;
    uint32_t count = 0;
  };

  [[gnu::noinline]] Task* make() try {
    const std::scoped_lock lock(mutex_);
    Task* task = nullptr;
    if (free_.take(task)) return task;
    const uint32_t count = std::min(kSlab, most_ - made_.load(std::memory_order_relaxed));
    if (count == 0) return nullptr;
    Slab& slab = slabs_.emplace_back(Slab{std::make_unique<Task[]>(count), count});
    made_.fetch_add(count, std::memory_order_relaxed);
    for (uint32_t i = 1; i < count; ++i) give_back(slab.tasks[i]);
    return &slab.tasks[0];
  } catch (const std::bad_alloc&) {
    return nullptr;
  }

  [[gnu::noinline]] Task* make_one() try {
    auto made = std::make_unique<Task>();
    Task* const task = made.get();
    task->beyond_bound = true;
    const std::scoped_lock lock(mutex_);
    singles_.emplace(task, std::move(made));
    beyond_.fetch_add(1, std::memory_order_relaxed);
    return task;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }

  [[gnu::noinline]] void destroy(Task& task) {
    const std::scoped_lock lock(mutex_);
    singles_.erase(&task);
    beyond_.fetch_sub(1, std::memory_order_relaxed);
  }

  const uint32_t most_;
  MpmcQueue<Task*> free_;
  std::atomic<uint32_t> made_{0};    // relaxed: a bound, and a sum
  std::atomic<uint64_t> beyond_{0};  // of singles_, relaxed
  std::mutex mutex_;                 // guards slabs_ and singles_
  std::vector<Slab> slabs_;
  std::unordered_map<Task*, std::unique_ptr<Task>> singles_;
};

}  // namespace rubato
