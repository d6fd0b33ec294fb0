// SPDX-License-Identifier: Apache-2.0
//
// TaskPool: the memory of an executor's tasks, used again and again: at most so many, in addresses
// that are reserved for all of them and touched when more are out than ever before; and one at a
// time beyond that for work that is not to be refused, unless there is no memory. Any thread;
// callers are not to be preempted within a call.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "executor/task.h"
#include "mechanism/fiber/sanitizer.h"
#include "mechanism/queue/free_list.h"

namespace rubato {

class TaskPool {
 public:
  explicit TaskPool(uint32_t most) : most_(most), tasks_(reserve(most)), free_(tasks_) {}
  ~TaskPool() {
    if (!valid()) return;
    sanitizer::forget_roots(tasks_, sizeof(Task) * most_);
    ::munmap(tasks_, sizeof(Task) * most_);
  }
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;
  // False: there are no addresses left for so many tasks, and no method is to be called.
  bool valid() const { return tasks_ != nullptr; }
  // Of the addresses.
  uint64_t bytes() const { return uint64_t{sizeof(Task)} * most_; }

  // Null = none is at hand; take() may find or make one.
  Task* take_free() { return free_.take(); }
  // Null = as many tasks as there may be are out.
  Task* take() {
    if (Task* const task = free_.take()) [[likely]] return task;
    return find_or_make();
  }
  // Null = there is no memory.
  Task* take_beyond() {
    Task* task = take();
    return task != nullptr ? task : make_one();
  }
  void give_back(Task& task) {
    if (task.beyond_bound) [[unlikely]] return destroy(task);
    task.renew();
    free_.give(task);
  }

  // Tasks that are out now; those that a take() just finds or makes count until they are at hand.
  // Looks at the list first: who sees a task there sees that it was made, as its giver released
  // that, so the difference is neither negative nor too small.
  uint64_t taken() const {
    const uint64_t free = free_.depth();
    return made_.load(std::memory_order_relaxed) - free + beyond_.load(std::memory_order_relaxed);
  }

  // Every task ever made; while no other thread uses the pool. `visit` may take tasks, which are
  // visited or not.
  template <class F>
  void for_each(F&& visit) {
    std::vector<Task*> singles;
    for (auto& [task, owned] : singles_) singles.push_back(task);
    for (uint32_t i = 0; i < made_.load(std::memory_order_relaxed); ++i) visit(tasks_[i]);
    for (Task* task : singles) visit(*task);
  }

 private:
  // Also about how often who submits finds none at hand, and meets who gives back: with 64, that
  // took 4 instructions more per task, and a seventh of the throughput of short ones.
  static constexpr uint32_t kMadeAtOnce = 512;
  static_assert(std::is_trivially_destructible_v<Task>);

  static Task* reserve(uint32_t most) {
    void* const memory = ::mmap(nullptr, sizeof(Task) * most, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    sanitizer::add_roots(memory, sizeof(Task) * most);  // closures hold memory
    return static_cast<Task*>(memory);
  }

  [[gnu::noinline]] Task* find_or_make() {
    const std::scoped_lock lock(mutex_);
    if (Task* const task = free_.take()) return task;
    if (Task* const task = free_.refill()) return task;
    const uint32_t first = made_.load(std::memory_order_relaxed);
    const uint32_t count = std::min(kMadeAtOnce, most_ - first);
    if (count == 0) return nullptr;
    for (uint32_t i = 0; i < count; ++i) ::new (&tasks_[first + i]) Task();
    made_.store(first + count, std::memory_order_relaxed);
    for (uint32_t i = count - 1; i > 0; --i) free_.give(tasks_[first + i]);
    return &tasks_[first];
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
  Task* const tasks_;
  FreeList<Task> free_;
  std::atomic<uint32_t> made_{0};    // relaxed: a bound, and a sum; changed under the lock
  std::atomic<uint64_t> beyond_{0};  // of singles_, relaxed
  std::mutex mutex_;                 // guards singles_, refills
  std::unordered_map<Task*, std::unique_ptr<Task>> singles_;
};

}  // namespace rubato
