// SPDX-License-Identifier: Apache-2.0
#include "executor/executor.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "mechanism/clock/clock.h"
#include "mechanism/preempt/preempt_disable.h"
#include "runtime/wait_port.h"

namespace rubato {
namespace {

// Frames nothing: tasks come by submit(). Also tells a task from other requests.
class TaskSession final : public Session {
 public:
  Frame frame(std::string_view, Request&) override { return {}; }
  // The end of the task tells its owner (TaskQueue::finish).
  void refuse(Request&) override {}
  CancelList* cancel_list(const Request& request) override {
    Cancellation* const cancellation = static_cast<const Task&>(request).cancellation;
    return cancellation != nullptr ? &cancellation->waits() : nullptr;
  }
};

TaskSession g_session;
ReplyBuffer g_no_reply;  // stays empty
constinit const std::atomic<ClientState> g_wanted{ClientState::kOpen};

Instant deadline_of(const TaskAttributes& attributes, Instant submitted) {
  const bool none = attributes.deadline <= Nanos();
  return none ? Instant::never() : submitted + attributes.deadline;
}

// The options of a worker that runs when its caller likes. Fails for those that need threads.
Status fit_into_loop(RuntimeOptions& options) {
  if (options.workers != 1) return Error{"workers: an executor in its caller's loop has 1"};
  if (options.preempt == PreemptMechanism::kAuto) options.preempt = PreemptMechanism::kCheckpoint;
  if (is_asynchronous(options.preempt)) {
    return Error{"preempt: in its caller's loop an executor takes auto, checkpoint or none"};
  }
  if (options.preemption_clock != PreemptionClock::kSelf) {
    return Error{"preemption_clock: in its caller's loop an executor takes self"};
  }
  if (options.idle == Idle::kSpin) {
    return Error{"idle: in its caller's loop an executor takes adaptive"};
  }
  options.idle_spin = Nanos();
  return Done{};
}

}  // namespace

Result<std::unique_ptr<Executor>> Executor::create(ExecutorOptions options) {
  if (options.in_loop) {
    if (Status fits = fit_into_loop(options.runtime); !fits.ok()) return Error{fits.error()};
  }
  const RuntimeOptions runtime_options = options.runtime;
  const bool in_loop = options.in_loop;
  std::unique_ptr<Executor> executor(new Executor(std::move(options)));
  if (Status good = executor->datapath_.check(); !good.ok()) return Error{good.error()};
  auto runtime = Runtime::create(runtime_options, executor->datapath_, *executor);
  if (!runtime.ok()) return Error{runtime.error()};
  executor->runtime_ = std::move(*runtime);
  if (in_loop) {
    if (executor->datapath_.loop()->watch(executor->runtime_->waits().reactor())) return executor;
    return Error{std::string("epoll: ") + std::strerror(errno)};
  }
  executor->runner_ = std::thread([self = executor.get()] {
    self->drained_ = self->runtime_->run();
    self->ended_.store(true, std::memory_order_release);
    self->ended_.notify_all();
  });
  return executor;
}

Executor::Executor(ExecutorOptions options)
    : type_names_(std::move(options.type_names)),
      datapath_(options.runtime.workers, options.max_tasks, options.in_loop) {}

Executor::~Executor() {
  if (runtime_ == nullptr) return;
  stop();
  static_cast<void>(join());
  if (runner_.joinable()) runner_.join();
  datapath_.end_all();
}

bool Executor::join() {
  in_loop() ? run_until_stopped() : ended_.wait(false, std::memory_order_acquire);
  return drained_;
}

// A worker that drains finds out by itself when the drain is over.
void Executor::run_until_stopped() {
  constexpr int kLookMs = 1;
  while (run(Nanos::millis(kLookMs)) != LoopState::kStopped) {
    pollfd p{fd(), POLLIN, 0};
    ::poll(&p, 1, kLookMs);
  }
}

LoopState Executor::run(Nanos budget) {
  RUBATO_DCHECK(in_loop() && current_task() == nullptr);
  if (ended_.load(std::memory_order_relaxed)) return LoopState::kStopped;
  LoopQueue& loop = *datapath_.loop();
  loop.enter(now() + budget);
  if (const auto drained = runtime_->run_here()) {
    drained_ = *drained;
    ended_.store(true, std::memory_order_release);
    return LoopState::kStopped;
  }
  return loop.has_more() ? LoopState::kMore : LoopState::kIdle;
}

void Executor::submit(Task& task, Task::Run runner, Task::Done teller) {
  task.run = runner;
  task.done = teller;
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
  Task* const task = attributes.is_continuation ? datapath_.reserve_continuation()
                                                : datapath_.reserve();
  return prepare(task, attributes);
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
  task->group = group_of(attributes.control);
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
