// SPDX-License-Identifier: Apache-2.0
//
// LoopQueue: the TaskQueue of an executor that lives in its caller's loop. Where other workers
// sleep, this one returns to the caller, and its descriptor says when to come again: for tasks, and
// for what tasks wait for. It also returns when its budget is used up. Threads: enter() and what
// datapath.h gives the owner belong to the thread that runs the executor.
#pragma once

#include <sys/epoll.h>

#include "executor/task_queue.h"
#include "mechanism/clock/clock.h"
#include "runtime/current_worker.h"
#include "runtime/fiber_scheduler.h"
#include "runtime/wait_port.h"

namespace rubato {

class LoopQueue final : public TaskQueue {
 public:
  // The worker begins with the first run. It has not waited before, so that no submission would
  // signal.
  LoopQueue(TaskPools& pools, IdleQueues& idle)
      : TaskQueue(0, pools, idle), events_(::epoll_create1(EPOLL_CLOEXEC)) {
    signal();
  }

  // Before the first run. False: there are no descriptors left.
  bool watch(Reactor& reactor) { return add(event()) && add(reactor.open_for_loop()); }

  // Readable while the executor is to be run: tasks came, or some are left of the last time, or
  // what they wait for has come.
  int fd() const { return events_.get(); }

  // The thread is about to run the worker, until then.
  void enter(Instant until) {
    until_ = until;
    has_more_ = false;
    clear();
  }
  // The worker has returned because its time was over.
  bool has_more() const { return has_more_; }

  bool recalls() const override { return now() >= until_; }

  uint32_t poll(std::span<Request*> out) override {
    CurrentWorker* const worker = current_worker();
    worker->waits().waits().reactor().poll();
    if (recalls() && worker->current() == nullptr) {
      has_more_ = true;
      signal();
      worker->fibers().pause();
    }
    return TaskQueue::poll(out);
  }

  void wait(Nanos) override {
    if (wake_token().begin_wait() && !pending()) current_worker()->fibers().pause();
    wake_token().end_wait();
  }

 private:
  bool add(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    return ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }

  const Fd events_;
  Instant until_;
  bool has_more_ = false;
};

}  // namespace rubato
