// SPDX-License-Identifier: Apache-2.0
//
// Executor: the live runtime under somebody else's server: tasks in place of requests from sockets,
// with every policy, mechanism of preemption and allocator of cores that servers have. It starts
// when it is made, unless its workers live in their callers' loops; its destructor stops it and
// waits. reserve() gives a task, in which the caller builds its closure; submit() hands it to the
// scheduler.
//
// Threads: all methods from any thread, tasks included, but the constructor's and the destructor's
// callers are no tasks of this executor.
#pragma once

#include <poll.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "executor/task_datapath.h"
#include "mechanism/clock/clock.h"
#include "mechanism/cpu/this_worker.h"
#include "mechanism/preempt/preempt_disable.h"
#include "runtime/runtime.h"

namespace rubato {

class CurrentWorker;

// Tasks with a share of the workers by weight (sched/group_shares.h) and a bound of their own.
struct TaskGroup {
  std::string name;
  uint32_t weight = sched::kUsualWeight;  // 1 .. sched::kMostWeight
  uint32_t max_tasks = 0;  // submitted and not done, at most `inbox_capacity`; 0 = that
};

struct ExecutorOptions {
  RuntimeOptions runtime;      // but for its groups
  uint32_t max_tasks = 65536;  // submitted and not done, outside of the groups
  uint32_t weight = sched::kUsualWeight;  // of the tasks in no group
  std::vector<TaskGroup> groups;
  bool in_loop = false;        // no threads: run() runs the workers, each in a loop of its own
  std::vector<std::string> type_names;
};

// As the scheduler counts them: see TaskAttributes::group.
constexpr uint8_t inner_group(uint32_t group) {
  return static_cast<uint8_t>(group == 0 ? kPolicyGroup : kFirstOwnGroup + group - 1);
}

// The attributes of one task. Of a task that another task submits, the deadline is that one's at
// the latest, and trace, cancellation and, in the same executor, group are that one's unless given.
struct TaskAttributes {
  uint32_t type = 0;
  bool is_long = false;
  uint8_t priority = 0;
  bool control = false;  // of the control plane, whatever the group
  uint32_t group = 0;    // 1 and up, in the order of the options; 0 = none is given
  Nanos deadline;  // from now; zero = none, negative = it has passed
  Nanos expected_service;  // zero = unknown
  uint64_t trace = 0;
  Cancellation* cancellation = nullptr;
  bool detached = false;  // nothing comes from the task that submits it
  bool is_continuation = false;  // not refused: part of work that was accepted before
};

// Why run() has returned.
enum class LoopState : uint8_t {
  kIdle,     // nothing is to be done before the descriptor is readable
  kMore,     // its time is over
  kStopped,  // for good
};

// Refuses options, or settles what they leave open.
Status fit(ExecutorOptions& options);

class Executor final : private Application {
 public:
  // By options that fit() has settled; start() begins to run, once, or says why not.
  explicit Executor(const ExecutorOptions& options);
  ~Executor() override;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  Status start(const ExecutorOptions& options);  // the same

  // Null = refused, and counted: there are max_tasks already, the executor stops, or it has no such
  // group; memory only refuses a continuation.
  Task* reserve(const TaskAttributes& attributes);
  // Also refuses while every worker refuses tasks that have waited too long (Overload::kAqm);
  // `retry_after` then says how long to wait.
  Task* try_reserve(const TaskAttributes& attributes, Nanos& retry_after);
  // A task without attributes, if nothing rare is to be done, and its submission at once, when its
  // closure is elsewhere; else null or false, and nothing was done.
  Task* reserve_quickly() {
    if (on_worker()) [[unlikely]] return nullptr;
    Task* const task = datapath_.reserve_free();
    if (task != nullptr) [[likely]] task->submitted_cycles = clock_.cycles();
    return task;
  }
  bool submit_quickly(Task::Run runner, Task::Done teller, void* argument) {
    if (on_worker()) [[unlikely]] return false;
    TaskQueue* const queue = datapath_.plain();
    if (queue == nullptr) [[unlikely]] return false;
    Task* const task = datapath_.free_task();
    if (task == nullptr) [[unlikely]] return false;
    task->submitted_cycles = Clock::counted_cycles();
    task->run = runner;
    task->done = teller;
    task->argument = argument;
    queue->submit(*task);
    return true;
  }
  // The task runs, or ends without having run; either is told to `teller`, if that is not null. It
  // may switch at its end.
  void submit(Task& task, Task::Run runner, Task::Done teller) {
    task.run = runner;
    task.done = teller;
    const PreemptDisableGuard no_preemption;
    datapath_.submit(task);
  }
  // Instead of submit; the closure is the caller's.
  void discard(Task& task);

  // Takes no new tasks and finishes those that it has, until the drain limit. Any number of times.
  void stop() { runtime_->stop(); }
  // Waits for the end of a stop. True = every task has ended before the drain limit. With `in_loop`
  // the caller's own loops run meanwhile, and those that no thread has run.
  bool join();

  // If a stop is over: ends the tasks that it has given up, those that came later, and those that
  // their ends submit. No other thread uses the executor.
  void end_left() {
    if (ended_.load(std::memory_order_acquire)) datapath_.end_all();
  }

  // For one of TaskDatapath::loops(). Runs tasks of that loop's worker, and what it takes from
  // others, for about so long; never blocks. A long task gives the thread back at the end of its
  // slice. For each loop one thread, the same each time, and no task; nothing = another thread has
  // run it.
  std::optional<LoopState> run(Nanos budget, LoopQueue& loop);

  Runtime& runtime() const { return *runtime_; }
  const TaskDatapath& datapath() const { return datapath_; }
  uint64_t unfinished() const { return datapath_.in_flight(); }
  // Of the group of that number; 0 = of none. Requires group <= groups().size().
  uint64_t unfinished(uint32_t group) const { return datapath_.in_flight(inner_group(group)); }
  GroupFigures figures(uint32_t group) const { return runtime_->group(inner_group(group)); }
  const std::vector<TaskGroup>& groups() const { return groups_; }
  uint64_t failed() const { return failed_.load(std::memory_order_relaxed); }

  std::string_view name_of_type(uint32_t type) const override {
    return type < type_names_.size() ? std::string_view(type_names_[type]) : std::string_view();
  }

  // The task that the caller runs in, of whichever executor; null elsewhere.
  static Task* current_task();
  // Whether the caller is a task of this executor, or a callback of one.
  friend bool runs_here(const Executor& executor);

 private:
  void handle(Request& request) override;
  void ended(bool drained);
  bool run_own_loops(std::vector<pollfd>& own);
  // `submitter`: the worker whose request submits the task; null elsewhere. `retry_after`: of
  // try_reserve(), else null.
  Task* reserve_as(const CurrentWorker* submitter, const TaskAttributes& attributes,
                   Nanos* retry_after);
  // Nothing = there is no such group; counted.
  std::optional<uint8_t> group_for(const CurrentWorker* submitter,
                                   const TaskAttributes& attributes);

  const std::vector<TaskGroup> groups_;
  const std::vector<std::string> type_names_;
  const Clock clock_ = process_clock();
  TaskDatapath datapath_;
  std::atomic<uint64_t> failed_{0};
  std::unique_ptr<Runtime> runtime_;
  std::thread runner_;  // calls runtime_->run()
  // Released when the runtime has stopped and drained_, relaxed, says how.
  std::atomic<bool> ended_{false};
  std::atomic<bool> drained_{false};
};

}  // namespace rubato
