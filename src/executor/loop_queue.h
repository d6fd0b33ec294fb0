// SPDX-License-Identifier: Apache-2.0
//
// LoopQueue: the TaskQueue of a worker that lives in its caller's loop. Where other workers sleep,
// this one returns to the caller, and its descriptor says when to come again: for tasks, and, in
// the first loop of an executor, for what tasks wait for. It also returns when its budget is used
// up. Threads: enter() and what datapath.h gives the owner belong to the thread that runs the loop.
#pragma once

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <ctime>

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
  // `executor` is a number that no other executor of the process has had.
  LoopQueue(uint32_t index, uint64_t executor, TaskPools& pools, IdleQueues& idle)
      : TaskQueue(index, pools, idle),
        executor_(executor),
        serves_waits_(index == 0),
        events_(::epoll_create1(EPOLL_CLOEXEC)),
        timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
    signal();
  }

  // Before the first run. False: there are no descriptors left.
  bool watch(Reactor& reactor) {
    return add(event()) && add(timer_.get()) && (!serves_waits_ || add(reactor.open_for_loop()));
  }

  // Readable while the executor is to be run: tasks came, or some are left of the last time, or
  // what they wait for has come.
  int fd() const { return events_.get(); }

  // The thread is about to run the worker, until then.
  void enter(Instant until) {
    until_ = until;
    has_more_ = false;
    last_of_thread_ = {executor_, this};
    clear();
  }
  // The worker has returned because its time was over.
  bool has_more() const { return has_more_; }

  bool recalls() const override { return now() >= until_; }

  uint32_t poll(std::span<Request*> out) override {
    CurrentWorker* const worker = current_worker();
    if (serves_waits_) worker->waits().waits().reactor().poll();
    if (recalls() && worker->current() == nullptr) {
      has_more_ = true;
      signal();
      worker->fibers().pause();
    }
    return TaskQueue::poll(out);
  }

  // A short limit is for what nobody tells: the end of a drain, another loop that is late. No
  // thread watches for a loop that becomes late, so each looks while tasks are underway.
  void wait(Nanos limit) override {
    if (wake_token().begin_wait()) {
      if (underway() > 0) limit = std::min(limit, kLook);
      const bool timed = limit < kLongWait;
      if (timed) set_timer(limit);
      current_worker()->fibers().pause();
      if (timed) set_timer(Nanos());
    }
    wake_token().end_wait();
  }

  // The loop of that executor that the calling thread has run last, if it has run no other since.
  static LoopQueue* of_thread(uint64_t executor) {
    const Last last = last_of_thread_;
    return last.executor == executor ? last.loop : nullptr;
  }

 private:
  struct Last {
    uint64_t executor;
    LoopQueue* loop;
  };
  static constinit inline thread_local Last last_of_thread_{0, nullptr};

  static constexpr Nanos kLongWait = Nanos::millis(100);
  static constexpr Nanos kLook = Nanos::millis(3);

  // Zero = it is off.
  void set_timer(Nanos after) {
    itimerspec time{};
    time.it_value.tv_nsec = after.count();
    ::timerfd_settime(timer_.get(), 0, &time, nullptr);
  }

  bool add(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    return ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }

  const uint64_t executor_;
  const bool serves_waits_;
  const Fd events_;
  const Fd timer_;
  Instant until_;
  bool has_more_ = false;
};

}  // namespace rubato
