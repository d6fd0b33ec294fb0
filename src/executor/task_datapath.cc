// SPDX-License-Identifier: Apache-2.0
#include "executor/task_datapath.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "mechanism/cpu/this_worker.h"

namespace rubato {
namespace {

uint64_t next_number() {
  static constinit std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

TaskDatapath::TaskDatapath(uint32_t queues, uint32_t most_tasks,
                           const std::vector<uint32_t>& most_of_groups, bool in_loop)
    : number_(next_number()), pools_(most_tasks, most_of_groups) {
  for (uint32_t i = 0; i < queues; ++i) {
    if (!in_loop) {
      queues_.push_back(std::make_unique<TaskQueue>(i, pools_, idle_));
      continue;
    }
    auto loop = std::make_unique<LoopQueue>(i, number_, pools_, idle_);
    loops_.push_back(loop.get());
    queues_.push_back(std::move(loop));
  }
  if (queues_.size() == 1) only_ = queues_[0].get();
  if (process_clock().uses_counter()) plain_.store(only_, std::memory_order_relaxed);
}

Status TaskDatapath::check() const {
  if (!pools_.valid()) return Error{"max_tasks: " + pools_.shortage()};
  for (const auto& queue : queues_) {
    if (!queue->valid()) return Error{std::string("eventfd: ") + std::strerror(errno)};
  }
  return Done{};
}

Task* TaskDatapath::reserve_continuation(uint8_t group) {
  Task* const task = pools_.of(group).take_beyond();
  task != nullptr ? void(task->group = group) : note_turned_away();
  return task;
}

void TaskDatapath::discard(Task& task) {
  task.end(TaskOutcome::kRefused);
  pools_.give_back(task);
  StdSync::fence();
  if (draining()) queues_.front()->wake();  // it may have been the last one
}

// A thread that runs a loop is about to run it again. Any other loop may be busy for long, and no
// thread would see the task: a loop that is idle does. Such a one marks itself, passes a fence and
// looks; here the task is pushed, then comes a fence, and then the look at the marks. So one of
// them sees the other.
void TaskDatapath::submit_to_loops(Task& task) {
  LoopQueue* const own = on_worker() ? nullptr : LoopQueue::of_thread(number_);
  if (own != nullptr) {
    own->submit(task);
    return;
  }
  const bool was_awake = choose().submit(task);
  if (!was_awake) return;
  StdSync::fence();
  if (const auto idle = idle_.claim()) queues_[*idle]->wake();
}

TaskQueue& TaskDatapath::choose() {
  if (const auto idle = idle_.claim()) return *queues_[*idle];
  if (on_worker()) return *queues_[this_worker() % queues_.size()];
  [[gnu::tls_model("initial-exec")]] static thread_local constinit uint32_t turn = 0;
  return *queues_[turn++ % queues_.size()];
}

void TaskDatapath::end_all() {
  end_queued();
  pools_.for_each([](Task& task) { task.end(TaskOutcome::kCancelled); });
  end_queued();
}

// Until the end of none has submitted another one, to whichever queue.
void TaskDatapath::end_queued() {
  for (bool ended = true; std::exchange(ended, false);) {
    for (const auto& queue : queues_) {
      while (Task* task = queue->take_left()) {
        task->end(TaskOutcome::kCancelled);
        pools_.give_back(*task);
        ended = true;
      }
    }
  }
}

DatapathStats TaskDatapath::stats() const {
  DatapathStats stats;
  for (const auto& queue : queues_) stats.requests += queue->polled();
  return stats;
}

}  // namespace rubato
