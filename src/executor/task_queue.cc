// SPDX-License-Identifier: Apache-2.0
#include "executor/task_queue.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <bit>
#include <ctime>
#include <utility>

#include "base/timespec.h"
#include "mechanism/cpu/this_worker.h"

namespace rubato {

TaskQueue::TaskQueue(uint32_t index, TaskPools& pools, IdleQueues& idle)
    : index_(index),
      pools_(pools),
      idle_(idle),
      event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

uint32_t TaskQueue::poll(std::span<Request*> out) {
  const bool is_owner = this_worker() == index_;
  if (polling_.exchange(true, std::memory_order_acq_rel)) return 0;
  const uint32_t taken = take(out);
  polling_.exchange(false, std::memory_order_acq_rel);
  // A worker that polls for a stuck one does not make that idle, and may have kept it out.
  if (is_owner && taken == 0) found_nothing();
  if (!is_owner && pending()) wake();
  return taken;
}

void TaskQueue::sort_arrivals() {
  for (Task* task = inbox_.take_all_in_order(); task != nullptr;) {
    Task* const next = std::exchange(task->next_in_list, nullptr);
    List& rest = rest_[task->group];
    (rest.first == nullptr ? rest.first : rest.last->next_in_list) = task;
    rest.last = task;
    groups_of_rest_ |= 1u << task->group;
    task = next;
  }
}

// One of each group in turn.
uint32_t TaskQueue::take(std::span<Request*> out) {
  sort_arrivals();
  uint32_t taken = 0;
  for (uint32_t turn = groups_of_rest_; taken < out.size() && groups_of_rest_ != 0;) {
    const auto group = static_cast<uint32_t>(std::countr_zero(turn));
    Task*& first = rest_[group].first;
    Task* const task = std::exchange(first, first->next_in_list);
    task->datapath = this;
    task->arrived = clock_.at(task->submitted_cycles);
    out[taken++] = task;
    if (first == nullptr) groups_of_rest_ &= ~(1u << group);
    turn &= turn - 1;
    if (turn == 0) turn = groups_of_rest_;
  }
  if (taken == 0) return 0;
  has_rest_.store(groups_of_rest_ != 0, std::memory_order_relaxed);
  polled_.store(polled() + taken, std::memory_order_relaxed);
  return taken;
}

Request* TaskQueue::finish(Request& request) {
  auto& task = static_cast<Task&>(request);
  task.end(outcome_of(task.refusal), task.retry_after);
  pools_.give_back(task);
  return nullptr;
}

void TaskQueue::wait(Nanos limit) {
  if (wake_token_.begin_wait() && !pending()) {
    pollfd p{event_.get(), POLLIN, 0};
    const timespec t = timespec_of(limit);
    if (::ppoll(&p, 1, &t, nullptr) > 0) clear();
  }
  wake_token_.end_wait();
}

void TaskQueue::wake() {
  if (wake_token_.wake()) signal();
}

void TaskQueue::signal() {
  const uint64_t one = 1;
  // Fails only when the counter is full of wakes; each was an event.
  [[maybe_unused]] const ssize_t n = ::write(event_.get(), &one, sizeof one);
}

void TaskQueue::clear() {
  uint64_t wakes = 0;
  [[maybe_unused]] const ssize_t n = ::read(event_.get(), &wakes, sizeof wakes);
}

}  // namespace rubato
