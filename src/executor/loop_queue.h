// SPDX-License-Identifier: Apache-2.0
//
// LoopQueue: the TaskQueue of a worker that lives in its caller's loop. Where other workers sleep,
// this one returns to the caller, and its descriptor says when to come again: for tasks, for what
// tasks wait for, and for the limit of a wait. It also returns when its budget is used up.
//
// Threads: has_more(), end() and what datapath.h gives the owner belong to the thread that runs the
// loop, the first one that enters. Memory order: `thread_` and `ended_` are relaxed, since they
// only keep other threads out.
#pragma once

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <atomic>
#include <ctime>
#include <thread>

#include "base/timespec.h"
#include "executor/task_queue.h"
#include "mechanism/clock/clock.h"
#include "runtime/current_worker.h"
#include "runtime/fiber_scheduler.h"
#include "runtime/wait_port.h"

namespace rubato {

class LoopQueue final : public TaskQueue {
 public:
  // The worker begins with the first run. It has not waited before, so that no submission would
  // signal. `executor` is a number that no other executor of the process has had.
  LoopQueue(uint32_t index, uint64_t executor, TaskPools& pools, IdleQueues& idle)
      : TaskQueue(index, pools, idle),
        executor_(executor),
        events_(::epoll_create1(EPOLL_CLOEXEC)),
        timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
    signal();
  }

  // Before the first run; `waits` are those of the worker. False: there are no descriptors left.
  bool watch(WaitPort& waits) {
    reactor_ = &waits.have_own_reactor();
    return add(event()) && add(timer_.get()) && add(reactor_->open_for_loop());
  }

  WorkerId worker() const { return {index()}; }

  // Readable while the worker is to be run: tasks came, or some are left of the last time, or what
  // they wait for has come.
  int fd() const { return events_.get(); }

  // The thread is about to run the worker, until then. False: the worker is another thread's.
  bool enter(Instant until) {
    if (!is_of_this_thread()) return false;
    until_ = until;
    has_more_ = false;
    last_of_thread_ = {executor_, this};
    clear();
    return true;
  }
  // The worker has ended; its descriptor stays readable.
  void end() {
    ended_.store(true, std::memory_order_relaxed);
    signal();
  }
  // Any thread.
  bool ended() const { return ended_.load(std::memory_order_relaxed); }
  // The worker has returned because its time was over.
  bool has_more() const { return has_more_; }

  // The loop of that executor that the calling thread has run last, if it has run no other since.
  static LoopQueue* of_thread(uint64_t executor) {
    return last_of_thread_.executor == executor ? last_of_thread_.loop : nullptr;
  }

  bool recalls() const override { return now() >= until_; }

  uint32_t poll(std::span<Request*> out) override {
    CurrentWorker* const worker = current_worker();
    // A worker that helps this one has a budget of its own.
    if (worker->worker().value != index()) return TaskQueue::poll(out);
    reactor_->poll();
    if (recalls() && worker->current() == nullptr) {
      has_more_ = true;
      signal();
      worker->fibers().pause();
    }
    return TaskQueue::poll(out);
  }

  bool is_looked_after() const override { return false; }

  // TaskDatapath::submit_to_loops() says what the fence is for.
  void note_idle(bool is_idle) override {
    if (!is_idle) return idle().unmark(index());
    idle().mark(index());
    StdSync::fence();
  }

  void wait(Nanos limit) override {
    if (wake_token().begin_wait() && !pending()) {
      const bool timed = limit < longest_wait(*this);
      if (timed) set_timer(limit);
      idle().mark(index());  // of a worker whose core is parked, too
      current_worker()->fibers().pause();
      idle().unmark(index());
      if (timed) set_timer(Nanos());
    }
    wake_token().end_wait();
    reactor_->poll();  // a worker whose core is parked does not poll, but sees who is back
  }

  // The thread of a loop does not sleep for others.
  bool delegate_to(DatapathQueue*) override { return false; }

 private:
  // Only a loop that sleeps is idle: no thread sees that another one is late with what came to it.
  void found_nothing() override {}

  // It is of the first thread that asks.
  bool is_of_this_thread() {
    const std::thread::id here = std::this_thread::get_id();
    std::thread::id owner = thread_.load(std::memory_order_relaxed);
    if (owner != std::thread::id()) return owner == here;
    return thread_.compare_exchange_strong(owner, here, std::memory_order_relaxed);
  }

  struct Last {
    uint64_t executor;
    LoopQueue* loop;
  };
  [[gnu::tls_model("initial-exec")]] static constinit inline thread_local Last last_of_thread_{
      0, nullptr};

  // Zero = it is off.
  void set_timer(Nanos after) {
    const itimerspec time{.it_interval = {}, .it_value = timespec_of(after)};
    ::timerfd_settime(timer_.get(), 0, &time, nullptr);
  }

  bool add(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    return ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }

  const uint64_t executor_;
  const Fd events_;
  const Fd timer_;
  Reactor* reactor_ = nullptr;
  std::atomic<std::thread::id> thread_{};
  std::atomic<bool> ended_{false};
  Instant until_;
  bool has_more_ = false;
};

}  // namespace rubato
