// SPDX-License-Identifier: Apache-2.0
//
// LoopQueue: the TaskQueue of an executor that lives in its caller's loop. Where other workers
// sleep, this one returns to the caller, and its descriptor says when to come again; it also
// returns when its budget is used up. Threads: enter() and what datapath.h gives the owner belong
// to the thread that runs the executor.
#pragma once

#include "executor/task_queue.h"
#include "mechanism/clock/clock.h"
#include "runtime/current_worker.h"
#include "runtime/fiber_scheduler.h"

namespace rubato {

class LoopQueue final : public TaskQueue {
 public:
  // The worker begins with the first run. It has not waited before, so that no submission would
  // signal.
  LoopQueue(TaskPool& pool, IdleQueues& idle) : TaskQueue(0, pool, idle) { signal(); }

  // Readable while the executor is to be run: tasks came, or some are left of the last time.
  int fd() const { return event(); }

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
    if (recalls() && worker->current() == nullptr) {
      has_more_ = true;
      signal();
      worker->fibers().pause();
    }
    return TaskQueue::poll(out);
  }

  void wait(Nanos) override {
    if (wake_token().begin_wait()) current_worker()->fibers().pause();
    wake_token().end_wait();
  }

 private:
  Instant until_;
  bool has_more_ = false;
};

}  // namespace rubato
