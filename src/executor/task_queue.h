// SPDX-License-Identifier: Apache-2.0
//
// TaskQueue: the tasks on their way to one worker. Any thread submits; the worker polls, or one
// that helps it. Threads otherwise as datapath.h says.
//
// Memory order. `inbox_` releases and acquires the tasks (datapath/push_list.h). Who pushes onto an
// empty list wakes the owner, for those that follow too, until somebody takes the list. The owner
// does not sleep through that (wake_token.h): either the wake ends its wait, or an earlier end of a
// wait has acquired what came before the wake, and `pending()` sees it before the next sleep, for
// the owner does not poll after each wait. So tasks that follow wait for a first pusher that loses
// its CPU before it wakes, at most as long as a wait.
// `polling_` is a try-lock around `rest_`. All its changes acquire and release, so of an owner that
// was kept out and who kept it out, one sees what came meanwhile: the owner gets in, or the other
// one, who looks when it has left, wakes the owner again.
#pragma once

#include <array>
#include <atomic>

#include "datapath/datapath.h"
#include "datapath/push_list.h"
#include "datapath/tcp_socket.h"
#include "datapath/wake_token.h"
#include "executor/idle_queues.h"
#include "executor/task_pools.h"
#include "mechanism/clock/clock.h"

namespace rubato {

class TaskQueue : public DatapathQueue {
 public:
  TaskQueue(uint32_t index, TaskPools& pools, IdleQueues& idle);
  // False: there is no descriptor to wake the owner by.
  bool valid() const { return event_.valid(); }

  // True: the owner did not sleep, and may be busy.
  bool submit(Task& task) {
    if (!inbox_.push(task)) return false;
    const bool asleep = wake_token_.wake();
    if (asleep) signal();
    return !asleep;
  }

  uint32_t poll(std::span<Request*> out) override;
  bool pending() const override {
    return !inbox_.empty() || has_rest_.load(std::memory_order_relaxed);
  }
  // A task that came, now that there is no worker to poll; null = none.
  Task* take_left() {
    Request* left = nullptr;
    return take({&left, 1}) == 1 ? static_cast<Task*>(left) : nullptr;
  }
  // Ends a task that was refused, or whose closure has run.
  Request* finish(Request& request) override;
  void flush(Request&) override {}
  void wait(Nanos limit) override;
  void wake() override;
  bool delegate_to(DatapathQueue* proxy) override {
    wake_token_.delegate_to(proxy);
    return true;
  }

  uint64_t polled() const { return polled_.load(std::memory_order_relaxed); }

 protected:
  WakeToken<DatapathQueue>& wake_token() { return wake_token_; }
  int event() const { return event_.get(); }
  uint32_t index() const { return index_; }
  IdleQueues& idle() { return idle_; }
  // The owner has polled and found nothing.
  virtual void found_nothing() { idle_.mark(index_); }
  void signal();
  void clear();

 private:
  // First in, first out.
  struct List {
    Task* first = nullptr;
    Task* last = nullptr;
  };

  void sort_arrivals();
  uint32_t take(std::span<Request*> out);

  const uint32_t index_;
  const Clock clock_ = process_clock();
  TaskPools& pools_;
  IdleQueues& idle_;
  alignas(limits::kCacheLineBytes) PushList<Task> inbox_;
  WakeToken<DatapathQueue> wake_token_;
  Fd event_;  // readable: a wake has come that was to end a wait
  alignas(limits::kCacheLineBytes) std::atomic<bool> polling_{false};
  // Taken from the inbox, not yet polled, by group: none waits here behind another's flood.
  std::array<List, limits::kGroups> rest_;
  uint32_t groups_of_rest_ = 0;        // those with a rest, as bits
  std::atomic<bool> has_rest_{false};  // mirrors them for other threads
  std::atomic<uint64_t> polled_{0};
};

}  // namespace rubato
