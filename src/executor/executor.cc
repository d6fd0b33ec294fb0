// SPDX-License-Identifier: Apache-2.0
#include "executor/executor.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"
#include "mechanism/clock/clock.h"
#include "mechanism/preempt/preempt_disable.h"
#include "runtime/current_worker.h"
#include "runtime/wait_port.h"

namespace rubato {
namespace {

// The options of workers that run when their callers like. Fails for those that need threads.
Status fit_into_loop(RuntimeOptions& options) {
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
  std::set<std::string> names;
  for (TaskGroup& group : options.groups) {
    if (group.name.empty()) return Error{"group: its name is empty"};
    const std::string of = "group " + group.name + ": ";
    if (!names.insert(group.name).second) return Error{of + "there are two of that name"};
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

void inherit(Task& task, Request* from) {
  if (from == nullptr) return;
  task.deadline = std::min(task.deadline, from->deadline);
  const Task* const parent = as_task(from);
  if (parent == nullptr) return;
  if (task.trace == 0) task.trace = parent->trace;
  if (task.cancellation == nullptr) task.cancellation = parent->cancellation;
}

void prepare(Task& task, const Clock& clock, const CurrentWorker* submitter,
             const TaskAttributes& attributes) {
  task.submitted_cycles = clock.cycles();
  if (attributes.deadline != Nanos()) {
    constexpr Nanos kLongest = Nanos::seconds(1'000'000'000);  // any sum with it is a time
    const Nanos after = std::clamp(attributes.deadline, Nanos(1), kLongest);
    task.deadline = clock.at(task.submitted_cycles) + after;
  }
  task.size_hint = attributes.expected_service;
  task.type = attributes.type;
  task.priority = attributes.priority;
  if (attributes.is_long) task.job_class = JobClass::kLong;
  task.trace = attributes.trace;
  task.cancellation = attributes.cancellation;
  if (submitter != nullptr && !attributes.detached) inherit(task, submitter->current());
  if (task.cancellation == nullptr) return;
  task.cancellation->share();
  task.client = &task.cancellation->state();
}

std::vector<uint32_t> bounds_of(const std::vector<TaskGroup>& groups) {
  std::vector<uint32_t> bounds;
  for (const TaskGroup& group : groups) bounds.push_back(group.max_tasks);
  return bounds;
}

}  // namespace

Status fit(ExecutorOptions& options) {
  if (Status fits = fit_groups(options); !fits.ok()) return fits;
  return options.in_loop ? fit_into_loop(options.runtime) : Done{};
}

Executor::Executor(const ExecutorOptions& options)
    : groups_(options.groups),
      type_names_(options.type_names),
      datapath_(options.runtime.workers, options.max_tasks, bounds_of(groups_), options.in_loop) {}

Status Executor::start(const ExecutorOptions& options) {
  if (Status good = datapath_.check(); !good.ok()) return good;
  auto runtime = Runtime::create(options.runtime, datapath_, *this);
  if (!runtime.ok()) return Error{runtime.error()};
  runtime_ = std::move(*runtime);
  bool watched = true;
  for (LoopQueue* loop : datapath_.loops()) {
    watched &= loop->watch(runtime_->waits().port(loop->worker()));
  }
  if (!watched) return Error{std::string("epoll: ") + std::strerror(errno)};
  if (!options.in_loop) runner_ = std::thread([this] { ended(runtime_->run()); });
  return Done{};
}

Executor::~Executor() {
  if (runtime_ == nullptr) return;
  if (runs_here(*this)) {
    check_failed(__FILE__, __LINE__, "a task destroys its own executor, which waits for that task");
  }
  stop();
  static_cast<void>(join());
  if (runner_.joinable()) runner_.join();
  end_left();
}

void Executor::ended(bool drained) {
  drained_.store(drained, std::memory_order_relaxed);
  ended_.store(true, std::memory_order_release);
  ended_.notify_all();
}

// Loops whose threads have gone do not end the drain.
bool Executor::join() {
  constexpr int kLookMs = 1;
  std::vector<pollfd> own;
  while (!datapath_.loops().empty() && run_own_loops(own)) {
    if (const auto drained = runtime_->stop_if_drained()) ended(*drained);
    ::poll(own.data(), own.size(), kLookMs);
  }
  ended_.wait(false, std::memory_order_acquire);
  return drained_.load(std::memory_order_relaxed);
}

// Those that are the caller's; `own` are then the descriptors of those that go on. False: they have
// stopped, and the executor.
bool Executor::run_own_loops(std::vector<pollfd>& own) {
  bool goes_on = !ended_.load(std::memory_order_relaxed);
  own.clear();
  for (LoopQueue* loop : datapath_.loops()) {
    const auto state = run(Nanos::millis(1), *loop);
    if (!state || state == LoopState::kStopped) continue;
    own.push_back({loop->fd(), POLLIN, 0});
    goes_on = true;
  }
  return goes_on;
}

std::optional<LoopState> Executor::run(Nanos budget, LoopQueue& loop) {
  RUBATO_DCHECK(current_task() == nullptr);
  if (loop.ended()) return LoopState::kStopped;
  if (!loop.enter(now() + budget)) return std::nullopt;
  if (const auto drained = runtime_->run_here(loop.worker())) {
    loop.end();
    ended(*drained);
    return LoopState::kStopped;
  }
  return loop.has_more() ? LoopState::kMore : LoopState::kIdle;
}

void Executor::discard(Task& task) {
  const PreemptDisableGuard no_preemption;
  datapath_.discard(task);
}

void Executor::handle(Request& request) {
  auto& task = static_cast<Task&>(request);
  const bool failed = task.run(task.argument) != 0;
  if (failed && !task.cancelled) failed_.fetch_add(1, std::memory_order_relaxed);
  if (!failed) return task.tell(TaskOutcome::kFinished);
  task.tell(task.cancelled ? outcome_of(task.refusal) : TaskOutcome::kFailed);
}

bool runs_here(const Executor& executor) {
  const CurrentWorker* const worker = current_worker();
  return worker != nullptr && &worker->application() == &executor;
}

Task* Executor::current_task() {
  return as_task(current_request());
}

Task* Executor::reserve(const TaskAttributes& attributes) {
  if (!on_worker()) [[likely]] return reserve_as(nullptr, attributes, nullptr);
  const PreemptDisableGuard no_preemption;
  return reserve_as(current_worker(), attributes, nullptr);
}

Task* Executor::try_reserve(const TaskAttributes& attributes, Nanos& retry_after) {
  const PreemptDisableGuard no_preemption;
  return reserve_as(current_worker(), attributes, &retry_after);
}

Task* Executor::reserve_as(const CurrentWorker* submitter, const TaskAttributes& attributes,
                           Nanos* retry_after) {
  const std::optional<uint8_t> group = group_for(submitter, attributes);
  if (!group) return nullptr;
  // How long others wait tells this only of requests that the policy orders.
  if (retry_after != nullptr && *group == kPolicyGroup) {
    *retry_after = runtime_->refuses_for(attributes.is_long ? JobClass::kLong : JobClass::kShort);
    if (*retry_after > Nanos()) return nullptr;
  }
  Task* const task = attributes.is_continuation ? datapath_.reserve_continuation(*group)
                                                : datapath_.reserve(*group);
  if (task != nullptr) prepare(*task, clock_, submitter, attributes);
  return task;
}

std::optional<uint8_t> Executor::group_for(const CurrentWorker* submitter,
                                           const TaskAttributes& attributes) {
  if (attributes.control) return kControlGroup;
  if (attributes.group > groups_.size()) [[unlikely]] {
    datapath_.note_turned_away();
    return std::nullopt;
  }
  if (attributes.group != 0 || attributes.detached) return inner_group(attributes.group);
  const bool ours = submitter != nullptr && &submitter->application() == this;
  const Request* const parent = ours ? submitter->current() : nullptr;
  return parent != nullptr && !parent->is_control() ? parent->group : kPolicyGroup;
}

}  // namespace rubato
