// SPDX-License-Identifier: Apache-2.0
//
// Executor: the live runtime under somebody else's server: tasks in place of requests from sockets,
// with every policy, mechanism of preemption and allocator of cores that servers have. It starts
// when it is made, unless its worker lives in its caller's loop; its destructor stops it and waits.
// reserve() gives a task, in which the caller builds its closure; submit() hands it to the
// scheduler.
//
// Threads: all methods from any thread, tasks included, but the constructor's and the destructor's
// callers are no tasks of this executor.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "executor/task_datapath.h"
#include "runtime/runtime.h"

namespace rubato {

struct ExecutorOptions {
  RuntimeOptions runtime;
  uint32_t max_tasks = 65536;  // submitted and not done
  bool in_loop = false;        // no threads: one worker, which run() runs
  std::vector<std::string> type_names;
};

// The attributes of one task. Of a task that another task submits, the deadline is that one's at
// the latest, and trace and cancellation are that one's unless given.
struct TaskAttributes {
  uint32_t type = 0;
  bool is_long = false;
  uint8_t priority = 0;
  bool control = false;
  Nanos deadline;  // from now; zero = none
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

class Executor final : private Application {
 public:
  static Result<std::unique_ptr<Executor>> create(ExecutorOptions options);
  ~Executor() override;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Null = refused, and counted: there are max_tasks already, or the executor stops; memory only
  // refuses a continuation.
  Task* reserve(const TaskAttributes& attributes);
  // Also refuses while every worker refuses tasks that have waited too long (Overload::kAqm);
  // `retry_after` then says how long to wait.
  Task* try_reserve(const TaskAttributes& attributes, Nanos& retry_after);
  // The task runs, or ends without having run; either is told to `teller`.
  void submit(Task& task, Task::Run runner, Task::Done teller);
  // Instead of submit; the closure is the caller's.
  void discard(Task& task);

  // Takes no new tasks and finishes those that it has, until the drain limit. Any number of times.
  void stop() { runtime_->stop(); }
  // Waits for the end of a stop. True = every task has ended before the drain limit. With `in_loop`
  // the caller is the thread that calls run().
  bool join();

  // With `in_loop` only. Runs tasks, for about so long; never blocks. A long task gives the thread
  // back at the end of its slice. One thread, the same each time, and no task of this executor.
  LoopState run(Nanos budget);
  // Readable when run() has something to do.
  int fd() { return datapath_.loop()->fd(); }
  bool in_loop() { return datapath_.loop() != nullptr; }

  Runtime& runtime() const { return *runtime_; }
  Datapath& datapath() { return datapath_; }
  uint64_t unfinished() const { return datapath_.in_flight(); }
  uint64_t failed() const { return failed_.load(std::memory_order_relaxed); }
  uint64_t turned_away() const { return datapath_.turned_away(); }

  std::string_view name_of_type(uint32_t type) const override {
    return type < type_names_.size() ? std::string_view(type_names_[type]) : std::string_view();
  }

  // The task that the caller runs in, of whichever executor; null elsewhere.
  static Task* current_task();

 private:
  explicit Executor(ExecutorOptions options);
  void handle(Request& request) override;
  void run_until_stopped();
  Task* prepare(Task* task, const TaskAttributes& attributes);

  const std::vector<std::string> type_names_;
  TaskDatapath datapath_;
  std::atomic<uint64_t> failed_{0};
  std::unique_ptr<Runtime> runtime_;
  std::thread runner_;  // calls runtime_->run()
  // Released when the runtime has stopped and drained_ says how.
  std::atomic<bool> ended_{false};
  bool drained_ = false;
};

}  // namespace rubato
