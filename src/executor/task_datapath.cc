// SPDX-License-Identifier: Apache-2.0
#include "executor/task_datapath.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/current_worker.h"

namespace rubato {

TaskDatapath::TaskDatapath(uint32_t queues, uint32_t most_tasks, bool in_loop)
    : pool_(most_tasks) {
  if (in_loop) {
    auto loop = std::make_unique<LoopQueue>(pool_, idle_);
    loop_ = loop.get();
    queues_.push_back(std::move(loop));
  }
  for (auto i = static_cast<uint32_t>(queues_.size()); i < queues; ++i) {
    queues_.push_back(std::make_unique<TaskQueue>(i, pool_, idle_));
  }
}

Status TaskDatapath::check() const {
  for (const auto& queue : queues_) {
    if (!queue->valid()) return Error{std::string("eventfd: ") + std::strerror(errno)};
  }
  return Done{};
}

Task* TaskDatapath::reserve() {
  Task* task = draining() ? nullptr : pool_.take();
  if (task == nullptr) turned_away_.fetch_add(1, std::memory_order_relaxed);
  return task;
}

Task* TaskDatapath::reserve_continuation() {
  Task* task = pool_.take_beyond();
  if (task == nullptr) turned_away_.fetch_add(1, std::memory_order_relaxed);
  return task;
}

void TaskDatapath::discard(Task& task) {
  task.end(TaskOutcome::kRefused);
  pool_.give_back(task);
}

TaskQueue& TaskDatapath::choose() {
  if (queues_.size() == 1) return *queues_[0];
  if (const auto idle = idle_.claim()) return *queues_[*idle];
  if (const CurrentWorker* worker = current_worker()) {
    return *queues_[worker->worker().value % queues_.size()];
  }
  static thread_local uint32_t turn = 0;
  return *queues_[turn++ % queues_.size()];
}

void TaskDatapath::end_all() {
  pool_.for_each([](Task& task) { task.end(TaskOutcome::kCancelled); });
}

DatapathStats TaskDatapath::stats() const {
  DatapathStats stats;
  for (const auto& queue : queues_) stats.requests += queue->polled();
  return stats;
}

}  // namespace rubato
