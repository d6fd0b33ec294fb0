// SPDX-License-Identifier: Apache-2.0
//
// TaskDatapath: brings tasks to the workers of a runtime, where a server's datapath brings requests
// from sockets. A task from a loop's thread, outside of tasks, goes to that loop, any other to a
// worker that is idle if there is one; otherwise tasks from a worker stay with it, and others go to
// the workers in turn.
//
// Threads: reserve, submit and discard from any thread, not to be preempted within the call; the
// rest as datapath.h says.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "executor/loop_queue.h"
#include "executor/task_queue.h"

namespace rubato {

class TaskDatapath final : public Datapath {
 public:
  // `in_loop`: each worker is run by a loop of its caller's.
  TaskDatapath(uint32_t queues, uint32_t most_tasks, const std::vector<uint32_t>& most_of_groups,
               bool in_loop);
  // Fails if the process may open no more files, or has no addresses for its tasks.
  Status check() const;
  // Of the workers; none unless they are run by loops.
  const std::vector<LoopQueue*>& loops() const { return loops_; }

  // A task of that group without a closure; null, and counted, if as many as there may be are out,
  // or the executor stops.
  Task* reserve(uint8_t group) {
    Task* const task = draining() ? nullptr : pools_.of(group).take();
    task != nullptr ? void(task->group = group) : note_turned_away();
    return task;
  }
  // A task of the policy's group if that takes neither memory nor a refusal; else null.
  Task* reserve_free() { return draining() ? nullptr : free_task(); }
  // The only queue, while submissions are to look at nothing else: until a stop, and if the clock
  // is the counter. Null = otherwise.
  TaskQueue* plain() const { return plain_.load(std::memory_order_acquire); }
  // The same as reserve_free() for who has seen plain().
  Task* free_task() { return pools_.of(kPolicyGroup).take_free(); }
  // Part of work that was accepted before: neither the bound nor a stop refuses it.
  Task* reserve_continuation(uint8_t group);
  // The caller refuses it.
  void note_turned_away() { turned_away_.fetch_add(1, std::memory_order_relaxed); }
  void submit(Task& task) {
    if (only_ != nullptr) {
      only_->submit(task);
    } else if (loops_.empty()) {
      choose().submit(task);
    } else {
      submit_to_loops(task);
    }
  }
  // Instead of submit.
  void discard(Task& task);
  bool draining() const { return draining_.load(std::memory_order_acquire); }
  // Tasks for which there was no room, or that came after the stop.
  uint64_t turned_away() const { return turned_away_.load(std::memory_order_relaxed); }
  // Ends the tasks that no worker runs any more, and those that these ends submit. After the
  // runtime has stopped; no other thread uses the datapath.
  void end_all();

  uint32_t queues() const override { return static_cast<uint32_t>(queues_.size()); }
  DatapathQueue& queue(WorkerId worker) override { return *queues_[worker.value]; }
  void drain() override {
    plain_.store(nullptr, std::memory_order_release);
    draining_.store(true, std::memory_order_release);
  }
  // Tasks that are out. Who gives one back sees the drain, or who drains sees it back; of two that
  // give back the last ones, to two pools, one sees both.
  uint64_t in_flight() const override {
    StdSync::fence();
    return pools_.taken();
  }
  bool tells_end() const override { return true; }
  uint64_t in_flight(uint8_t group) const { return pools_.of(group).taken(); }
  DatapathStats stats() const override;
  void for_each_flow(const std::function<void(const FlowInfo&)>&) override {}
  bool close_flow(uint64_t) override { return false; }

 private:
  TaskQueue& choose();
  void submit_to_loops(Task& task);
  void end_queued();

  const uint64_t number_;  // that no other one of the process has had
  TaskPools pools_;
  IdleQueues idle_;
  std::vector<std::unique_ptr<TaskQueue>> queues_;
  TaskQueue* only_ = nullptr;  // if there is one
  std::atomic<TaskQueue*> plain_{nullptr};  // ordered as draining_, which it stands for
  std::vector<LoopQueue*> loops_;  // all of them, or none
  std::atomic<bool> draining_{false};
  std::atomic<uint64_t> turned_away_{0};
};

}  // namespace rubato
