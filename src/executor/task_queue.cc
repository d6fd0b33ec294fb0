// SPDX-License-Identifier: Apache-2.0
#include "executor/task_queue.h"

#include <chrono>

#include "mechanism/cpu/this_worker.h"

namespace rubato {

uint32_t TaskQueue::poll(std::span<Request*> out) {
  if (polling_.load(std::memory_order_relaxed)) return 0;
  if (polling_.exchange(true, std::memory_order_acquire)) return 0;
  const uint32_t taken = take(out);
  polling_.store(false, std::memory_order_release);
  // A worker that polls for a stuck one does not make that idle.
  if (taken == 0 && this_worker() == index_) idle_.mark(index_);
  return taken;
}

uint32_t TaskQueue::take(std::span<Request*> out) {
  if (rest_ == nullptr) rest_ = inbox_.take_all_in_order();
  uint32_t taken = 0;
  while (taken < out.size() && rest_ != nullptr) {
    out[taken++] = std::exchange(rest_, rest_->next_in_list);
  }
  if (taken == 0) return 0;
  has_rest_.store(rest_ != nullptr, std::memory_order_relaxed);
  polled_.store(polled() + taken, std::memory_order_relaxed);
  return taken;
}

Request* TaskQueue::finish(Request& request) {
  auto& task = static_cast<Task&>(request);
  task.end(outcome_of(task.refusal), task.retry_after);
  pool_.give_back(task);
  return nullptr;
}

void TaskQueue::wait(Nanos limit) {
  if (wake_token_.begin_wait()) {
    std::unique_lock lock(mutex_);
    something_.wait_for(lock, std::chrono::nanoseconds(limit.count()), [this] { return woken_; });
    woken_ = false;
  }
  wake_token_.end_wait();
}

void TaskQueue::wake() {
  if (!wake_token_.wake()) return;
  {
    const std::scoped_lock lock(mutex_);
    woken_ = true;
  }
  something_.notify_one();
}

}  // namespace rubato
