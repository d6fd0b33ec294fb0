// SPDX-License-Identifier: Apache-2.0
#include "executor/task_datapath.h"

#include "runtime/current_worker.h"

namespace rubato {

TaskDatapath::TaskDatapath(uint32_t queues, uint32_t most_tasks) : pool_(most_tasks) {
  for (uint32_t i = 0; i < queues; ++i) {
    queues_.push_back(std::make_unique<TaskQueue>(i, pool_, idle_));
  }
}

Task* TaskDatapath::reserve() {
  Task* task = draining() ? nullptr : pool_.take();
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
