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

Status check_weight(const std::string& of, uint32_t weight) {
  if (weight >= 1 && weight <= sched::kMostWeight) return Done{};
  return Error{of + std::to_string(weight) + " is not in 1 .. " +
               std::to_string(sched::kMostWeight)};
}

// Completes the groups, and tells the runtime their weights.
Status fit_groups(ExecutorOptions& options) {
  constexpr uint32_t kMostOwn = limits::kGroups - kFirstOwnGroup;
  if (options.groups.size() > kMostOwn) {
    return Error{"groups: at most " + std::to_string(kMostOwn) + " besides the default one"};
  }
  if (Status good = check_weight("weight: ", options.weight); !good.ok()) return good;
  options.runtime.groups.policy = options.weight;
  for (TaskGroup& group : options.groups) {
    const std::string of = "group " + group.name + ": ";
    if (Status good = check_weight(of + "weight ", group.weight); !good.ok()) return good;
    const uint32_t most = options.runtime.inbox_capacity;
    if (group.max_tasks == 0) group.max_tasks = most;
    if (group.max_tasks > most) {
      return Error{of + "max_tasks " + std::to_string(group.max_tasks) +
                   " is not in 1 .. inbox_capacity (" + std::to_string(most) + ")"};
    }
    options.runtime.groups.own.push_back(group.weight);
  }
  return Done{};
}

std::vector<uint32_t> bounds_of(const std::vector<TaskGroup>& groups) {
  std::vector<uint32_t> bounds;
  for (const TaskGroup& group : groups) bounds.push_back(group.max_tasks);
  return bounds;
}

}  // namespace

Result<std::unique_ptr<Executor>> Executor::create(ExecutorOptions options) {
  if (Status fits = fit_groups(options); !fits.ok()) return Error{fits.error()};
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
    : groups_(std::move(options.groups)),
      type_names_(std::move(options.type_names)),
      datapath_(options.runtime.workers, options.max_tasks, bounds_of(groups_), options.in_loop) {}

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
  const std::optional<uint8_t> group = group_for(attributes);
  if (!group) return nullptr;
  Task* const task = attributes.is_continuation ? datapath_.reserve_continuation(*group)
                                                : datapath_.reserve(*group);
  return prepare(task, attributes);
}

Task* Executor::try_reserve(const TaskAttributes& attributes, Nanos& retry_after) {
  const PreemptDisableGuard no_preemption;
  const std::optional<uint8_t> group = group_for(attributes);
  if (!group) return nullptr;
  // How long others wait tells this only of requests that the policy orders.
  if (*group == kPolicyGroup) {
    retry_after = runtime_->refuses_for(attributes.is_long ? JobClass::kLong : JobClass::kShort);
  }
  return retry_after > Nanos() ? nullptr : prepare(datapath_.reserve(*group), attributes);
}

std::optional<uint8_t> Executor::group_for(const TaskAttributes& attributes) {
  if (attributes.control) return kControlGroup;
  if (attributes.group > groups_.size()) {
    datapath_.note_turned_away();
    return std::nullopt;
  }
  if (attributes.group != 0 || groups_.empty() || attributes.detached) {
    return inner_group(attributes.group);
  }
  const Task* const parent = current_task();
  const bool inherits = parent != nullptr && parent->executor == this && !parent->is_control();
  return inherits ? parent->group : kPolicyGroup;
}

Task* Executor::prepare(Task* task, const TaskAttributes& attributes) {
  if (task == nullptr) return nullptr;
  const uint8_t group = task->group;
  static_cast<Request&>(*task) = Request();
  task->group = group;
  task->executor = this;
  task->arrived = now();
  task->deadline = deadline_of(attributes, task->arrived);
  task->size_hint = attributes.expected_service;
  task->type = attributes.type;
  task->priority = attributes.priority;
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
