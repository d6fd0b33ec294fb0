// SPDX-License-Identifier: Apache-2.0
#include "executor/executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "mechanism/clock/clock.h"
#include "mechanism/preempt/preempt_disable.h"

namespace rubato {
namespace {

// Frames nothing: tasks come by submit(). Also tells a task from other requests.
class TaskSession final : public Session {
 public:
  Frame frame(std::string_view, Request&) override { return {}; }
  // The end of the task tells its owner (TaskQueue::finish).
  void refuse(Request&) override {}
};

TaskSession g_session;
ReplyBuffer g_no_reply;  // stays empty
constinit const std::atomic<ClientState> g_wanted{ClientState::kOpen};

Instant deadline_of(const TaskAttributes& attributes, Instant submitted) {
  const bool none = attributes.deadline <= Nanos();
  return none ? Instant::never() : submitted + attributes.deadline;
}

}  // namespace

Result<std::unique_ptr<Executor>> Executor::create(ExecutorOptions options) {
  const RuntimeOptions runtime_options = options.runtime;
  std::unique_ptr<Executor> executor(new Executor(std::move(options)));
  auto runtime = Runtime::create(runtime_options, executor->datapath_, *executor);
  if (!runtime.ok()) return Error{runtime.error()};
  executor->runtime_ = std::move(*runtime);
  executor->runner_ = std::thread([self = executor.get()] {
    self->drained_ = self->runtime_->run();
    self->ended_.store(true, std::memory_order_release);
    self->ended_.notify_all();
  });
  return executor;
}

Executor::Executor(ExecutorOptions options)
    : type_names_(std::move(options.type_names)),
      datapath_(options.runtime.workers, options.max_tasks) {}

Executor::~Executor() {
  if (!runner_.joinable()) return;
  stop();
  static_cast<void>(join());
  runner_.join();
  datapath_.end_all();
}

bool Executor::join() {
  ended_.wait(false, std::memory_order_acquire);
  return drained_;
}

void Executor::submit(Task& task, Task::Run run, Task::Done done) {
  task.run = run;
  task.done = done;
  const PreemptDisableGuard no_preemption;
  datapath_.submit(task);
}

void Executor::discard(Task& task) {
  const PreemptDisableGuard no_preemption;
  datapath_.discard(task);
}

void Executor::handle(Request& request) {
  auto& task = static_cast<Task&>(request);
  const bool failed = task.run(task.closure) != 0;
  if (failed && !task.cancelled) failed_.fetch_add(1, std::memory_order_relaxed);
  if (!failed) return task.tell(TaskOutcome::kFinished);
  task.tell(task.cancelled ? outcome_of(task.refusal) : TaskOutcome::kFailed);
}

Task* Executor::current_task() {
  Request* request = current_request();
  const bool is_task = request != nullptr && request->session == &g_session;
  return is_task ? static_cast<Task*>(request) : nullptr;
}

Task* Executor::reserve(const TaskAttributes& attributes) {
  const PreemptDisableGuard no_preemption;
  return prepare(datapath_.reserve(), attributes);
}

Task* Executor::try_reserve(const TaskAttributes& attributes, Nanos& retry_after) {
  const PreemptDisableGuard no_preemption;
  retry_after = runtime_->refuses_for(attributes.is_long ? JobClass::kLong : JobClass::kShort);
  return retry_after > Nanos() ? nullptr : prepare(datapath_.reserve(), attributes);
}

Task* Executor::prepare(Task* task, const TaskAttributes& attributes) {
  if (task == nullptr) return nullptr;
  static_cast<Request&>(*task) = Request();
  task->arrived = now();
  task->deadline = deadline_of(attributes, task->arrived);
  task->size_hint = attributes.expected_service;
  task->type = attributes.type;
  task->priority = attributes.priority;
  task->control = attributes.control;
  if (attributes.is_long) task->job_class = JobClass::kLong;
  task->session = &g_session;
  task->reply = &g_no_reply;
  task->trace = attributes.trace;
  task->cancellation = attributes.cancellation;
  if (const Request* parent = attributes.detached ? nullptr : current_request()) {
    task->deadline = std::min(task->deadline, parent->deadline);
    if (parent->session == &g_session) {
      const auto& submitter = static_cast<const Task&>(*parent);
      if (task->trace == 0) task->trace = submitter.trace;
      if (task->cancellation == nullptr) task->cancellation = submitter.cancellation;
    }
  }
  task->client = &g_wanted;
  if (task->cancellation != nullptr) {
    task->cancellation->share();
    task->client = &task->cancellation->state();
  }
  return task;
}

}  // namespace rubato
