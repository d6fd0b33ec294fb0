// SPDX-License-Identifier: Apache-2.0
//
// The functions of <rubato/executor.h>, which documents them.
#include "api/executor.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "api/error.h"
#include "api/figures.h"
#include "api/options.h"
#include "api/texts.h"
#include "api/versioned.h"
#include "mechanism/clock/clock.h"
#include "runtime/state_json.h"
#include "runtime/worker_stats.h"

using rubato::Done;
using rubato::Error;
using rubato::Executor;
using rubato::Nanos;
using rubato::Result;
using rubato::Status;
using rubato::Task;
using rubato::TaskAttributes;

namespace {

constexpr uint32_t kMostTasks = 1u << 24;
constexpr size_t kMetricsConnections = 32;

static_assert(Task::kClosureBytes == RUBATO_TASK_CLOSURE_BYTES);
static_assert(static_cast<int>(rubato::TaskOutcome::kCancelled) == RUBATO_TASK_CANCELLED);
static_assert(static_cast<int>(rubato::LoopState::kStopped) == RUBATO_LOOP_STOPPED);

rubato_executor_options default_options() {
  rubato_executor_options options{};
  options.struct_size = sizeof options;
  options.max_tasks = rubato::ExecutorOptions().max_tasks;
  options.weight = rubato::ExecutorOptions().weight;
  return options;
}

rubato_task* to_c(Task* task) { return reinterpret_cast<rubato_task*>(task); }
Task& from_c(rubato_task* task) { return *reinterpret_cast<Task*>(task); }
rubato::Cancellation* from_c(rubato_cancellation* c) {
  return reinterpret_cast<rubato::Cancellation*>(c);
}

void copy(const rubato_task_attributes& from, TaskAttributes& to) {
  to.type = from.type;
  to.is_long = from.is_long != 0;
  to.priority = static_cast<uint8_t>(std::min(from.priority, rubato::limits::kPriorityLevels - 1));
  to.control = from.is_control != 0;
  to.group = from.group;
  to.deadline = Nanos(from.deadline_ns);
  to.expected_service = Nanos(from.expected_ns);
  to.trace = from.trace;
  to.cancellation = from_c(from.cancellation);
  to.detached = from.detached != 0;
  to.is_continuation = from.is_continuation != 0;
}

// The attributes of a caller that was compiled with another library. False: they ask for something
// that this one does not know.
[[gnu::noinline]] bool read_other(const rubato_task_attributes* given, TaskAttributes& to) {
  auto known = rubato::api::read_versioned(given, rubato_task_attributes{}, "attributes");
  if (known.ok()) copy(*known, to);
  return known.ok();
}

bool read(const rubato_task_attributes* given, TaskAttributes& to) {
  if (given == nullptr) return true;
  if (given->struct_size != sizeof *given) [[unlikely]] return read_other(given, to);
  copy(*given, to);
  return true;
}

// Apart, so that the usual submission needs no stack for them.
[[gnu::noinline]] Task* create_with(Executor& tasks, const rubato_task_attributes* attributes) {
  TaskAttributes known;
  return read(attributes, known) ? tasks.reserve(known) : nullptr;
}

Task* create(Executor& tasks, const rubato_task_attributes* attributes) {
  Task* const task = attributes == nullptr ? tasks.reserve_quickly() : nullptr;
  return task != nullptr ? task : create_with(tasks, attributes);
}

[[gnu::noinline]] int submit_with(Executor& tasks, const rubato_task_attributes* attributes,
                                  Task::Run run, Task::Done done, void* user) {
  Task* const task = create(tasks, attributes);
  if (task == nullptr) return RUBATO_ERROR;
  task->argument = user;
  tasks.submit(*task, run, done);
  return RUBATO_OK;
}

Status check_range(const char* name, uint64_t value, uint64_t most) {
  if (value >= 1 && value <= most) return Done{};
  return Error{std::string(name) + ": " + std::to_string(value) + " is not in 1 .. " +
               std::to_string(most)};
}

// The structs of a caller that was compiled with another library have another size, all of them the
// same.
Status read_groups(const rubato_executor_options& from, std::vector<rubato::TaskGroup>& to) {
  const auto* bytes = reinterpret_cast<const std::byte*>(from.groups);
  for (size_t i = 0; i < from.groups_count; ++i) {
    const auto* given = reinterpret_cast<const rubato_group*>(bytes);
    auto known = rubato::api::read_versioned(given, rubato_group{}, "group");
    if (!known.ok()) return Error{known.error()};
    if (known->name == nullptr) return Error{"group: it has no name"};
    to.push_back({known->name, known->weight, known->max_tasks});
    bytes += given->struct_size;
  }
  return rubato::Done{};
}

}  // namespace

Result<std::unique_ptr<rubato_executor>> rubato_executor::create(
    const rubato_executor_options* options) {
  const rubato_executor_options defaults = default_options();
  auto known = rubato::api::read_versioned(options == nullptr ? &defaults : options, defaults,
                                           "executor options");
  if (!known.ok()) return Error{known.error()};
  if (Status good = check_range("max_tasks", known->max_tasks, kMostTasks); !good.ok()) {
    return Error{good.error()};
  }
  const rubato_options usual = rubato::api::default_options();
  auto setup = rubato::api::read_executor_options(
      known->scheduler == nullptr ? &usual : known->scheduler);
  if (!setup.ok()) return Error{setup.error()};
  rubato::ExecutorOptions made{.runtime = setup->runtime,
                               .max_tasks = known->max_tasks,
                               .weight = known->weight,
                               .groups = {},
                               .in_loop = known->in_loop != 0,
                               .type_names = {}};
  if (Status good = read_groups(*known, made.groups); !good.ok()) return Error{good.error()};
  const bool chosen = known->scheduler != nullptr && known->scheduler->workers != 0;
  if (made.in_loop && !chosen) made.runtime.workers = 1;
  const Status named = rubato::api::check_type_names(known->type_names, known->type_names_count);
  if (!named.ok()) return Error{named.error()};
  for (size_t i = 0; i < known->type_names_count; ++i) {
    made.type_names.emplace_back(known->type_names[i]);
  }
  if (Status fits = rubato::fit(made); !fits.ok()) return Error{fits.error()};
  std::unique_ptr<rubato_executor> executor(new rubato_executor(made));
  const Status started = executor->tasks_.start(made);
  if (!started.ok()) return Error{started.error()};
  executor->recorders_.open(setup->recorders, executor->tasks_.runtime(),
                            executor->tasks_.datapath(), executor->types());
  const Status metrics = executor->start_metrics(setup->metrics_bind, setup->metrics_port);
  if (!metrics.ok()) return Error{metrics.error()};
  // Last, so that what fails leaves no file; the metrics know the recorders already.
  const Status begun = executor->recorders_.begin();
  if (!begun.ok()) return Error{begun.error()};
  return executor;
}

// The files have the ends of the tasks that the stop waits for; nobody asks for figures meanwhile.
rubato_executor::~rubato_executor() {
  exporter_ = nullptr;
  if (!recorders_.any()) return;
  tasks_.stop();
  static_cast<void>(tasks_.join());
  recorders_.close();
}

Status rubato_executor::start_metrics(const std::string& bind, int port) {
  if (port < 0) return Done{};
  rubato::Runtime& runtime = tasks_.runtime();
  auto started = rubato::Exporter::start(
      bind, static_cast<uint16_t>(port),
      {[this](rubato::OpenMetrics& out) { expose(out); },
       [&runtime] { return runtime.serving(); },
       [this, &runtime] { return rubato::plan_text(runtime, types()); },
       {}, {},
       [this, &runtime] { return rubato::state_json(runtime, tasks_.datapath(), types()); }},
      {.connections = kMetricsConnections});
  if (!started.ok()) return Error{started.error()};
  exporter_ = std::move(*started);
  return Done{};
}

rubato::ExposedTypes rubato_executor::types() const {
  return {[this](uint32_t type) {
            const std::string_view name = tasks_.name_of_type(type);
            return name.empty() ? std::to_string(type) : std::string(name);
          },
          rubato::kRequestTypes};
}

void rubato_executor::expose(rubato::OpenMetrics& out) {
  rubato::expose(out, tasks_.runtime(), tasks_.datapath(), types(), named_types_);
  out.family("rubato_failed", "counter", "Tasks that failed.");
  out.counter(tasks_.failed());
  out.family("rubato_turned_away", "counter", "Tasks refused as they were submitted.");
  out.counter(tasks_.datapath().turned_away());
  out.family("rubato_unfinished", "gauge", "Tasks that were submitted and are not done.");
  out.gauge(static_cast<double>(tasks_.unfinished()));
  if (!tasks_.groups().empty()) expose_groups(out);
  recorders_.expose(out);
}

void rubato_executor::expose_groups(rubato::OpenMetrics& out) const {
  const auto each = [&](const char* name, const char* kind, const char* help, auto&& write) {
    out.family(name, kind, help);
    for (uint32_t group = 0; group <= tasks_.groups().size(); ++group) {
      const std::string of = group == 0 ? "default" : tasks_.groups()[group - 1].name;
      write(group_stats(group), rubato::OpenMetrics::label("group", of));
    }
  };
  using Group = rubato_group_stats;
  each("rubato_group_requests", "counter", "Tasks finished, by group.",
       [&](const Group& of, const std::string& label) { out.counter(of.requests, label); });
  each("rubato_group_refused", "counter", "Tasks refused after they were submitted, by group.",
       [&](const Group& of, const std::string& label) { out.counter(of.refused, label); });
  each("rubato_group_service_seconds", "counter", "Time of finished tasks on workers, by group.",
       [&](const Group& of, const std::string& label) {
         out.counter_seconds(static_cast<double>(of.service_ns) / 1e9, label);
       });
  each("rubato_group_waited_seconds", "counter",
       "Time of finished tasks from submission to the first slice, by group.",
       [&](const Group& of, const std::string& label) {
         out.counter_seconds(static_cast<double>(of.waited_ns) / 1e9, label);
       });
  each("rubato_group_unfinished", "gauge", "Tasks submitted and not done, by group.",
       [&](const Group& of, const std::string& label) {
         out.gauge(static_cast<double>(of.unfinished), label);
       });
}

rubato_group_stats rubato_executor::group_stats(uint32_t group) const {
  rubato_group_stats stats{};
  if (group > tasks_.groups().size()) return stats;
  const rubato::GroupFigures figures = tasks_.figures(group);
  stats.requests = figures.finished;
  stats.refused = figures.refused;
  stats.unfinished = tasks_.unfinished(group);
  stats.service_ns = figures.service.count();
  stats.waited_ns = figures.waited.count();
  return stats;
}

rubato_stats rubato_executor::stats() const {
  rubato_stats stats = rubato::api::stats_of(tasks_.runtime());
  stats.refused += tasks_.datapath().turned_away();
  stats.failed = tasks_.failed();
  return stats;
}

void rubato_executor_options_init(rubato_executor_options* options, size_t size) {
  rubato::api::write_versioned(default_options(), options, size);
}

void rubato_task_attributes_init(rubato_task_attributes* attributes, size_t size) {
  rubato::api::write_versioned(rubato_task_attributes{}, attributes, size);
}

rubato_executor* rubato_executor_create(const rubato_executor_options* options,
                                        rubato_error* error) {
  try {
    auto created = rubato_executor::create(options);
    if (created.ok()) return created.value().release();
    rubato::api::say(error, created.error());
  } catch (const std::exception& trouble) {
    rubato::api::say(error, trouble.what());
  }
  return nullptr;
}

void rubato_executor_stop(rubato_executor* executor) { executor->tasks().stop(); }

int rubato_executor_join(rubato_executor* executor) {
  Executor& tasks = executor->tasks();
  if (runs_here(tasks)) return RUBATO_ERROR;
  return tasks.join() ? RUBATO_OK : RUBATO_DRAIN_LIMIT;
}

void rubato_executor_end_left(rubato_executor* executor) { executor->tasks().end_left(); }

int rubato_executor_run(rubato_executor* executor, int64_t budget_ns) {
  return rubato_executor_run_loop(executor, 0, budget_ns);
}

int rubato_executor_fd(rubato_executor* executor) { return rubato_executor_loop_fd(executor, 0); }

// A loop that join() has found without a thread is idle for the thread that comes after all, until
// it has stopped.
int rubato_executor_run_loop(rubato_executor* executor, uint32_t loop, int64_t budget_ns) {
  Executor& tasks = executor->tasks();
  const auto& loops = tasks.datapath().loops();
  if (loop >= loops.size() || Executor::current_task() != nullptr) return RUBATO_ERROR;
  if (const auto state = tasks.run(Nanos(budget_ns), *loops[loop])) return static_cast<int>(*state);
  if (tasks.runtime().serving()) return RUBATO_ERROR;
  return RUBATO_LOOP_IDLE;
}

int rubato_executor_loop_fd(rubato_executor* executor, uint32_t loop) {
  const auto& loops = executor->tasks().datapath().loops();
  return loop < loops.size() ? loops[loop]->fd() : RUBATO_ERROR;
}

void rubato_executor_destroy(rubato_executor* executor) { delete executor; }

rubato_task* rubato_task_create(rubato_executor* executor,
                                const rubato_task_attributes* attributes) {
  return to_c(create(executor->tasks(), attributes));
}

rubato_task* rubato_task_try_create(rubato_executor* executor,
                                    const rubato_task_attributes* attributes,
                                    int64_t* retry_after_ns) {
  *retry_after_ns = 0;
  TaskAttributes known;
  if (!read(attributes, known)) return nullptr;
  Nanos retry_after;
  Task* const task = executor->tasks().try_reserve(known, retry_after);
  *retry_after_ns = retry_after.count();
  return to_c(task);
}

void* rubato_task_closure(rubato_task* task) { return from_c(task).closure; }

void rubato_task_submit(rubato_executor* executor, rubato_task* task, rubato_task_run run,
                        rubato_task_done done) {
  executor->tasks().submit(from_c(task), run, done);
}

void rubato_task_discard(rubato_executor* executor, rubato_task* task) {
  executor->tasks().discard(from_c(task));
}

int rubato_executor_submit(rubato_executor* executor, const rubato_task_attributes* attributes,
                           rubato_task_run run, rubato_task_done done, void* user) {
  Executor& tasks = executor->tasks();
  if (attributes != nullptr) [[unlikely]] return submit_with(tasks, attributes, run, done, user);
  // Null again, so that the usual submission need not save it.
  if (!tasks.submit_quickly(run, done, user)) return submit_with(tasks, nullptr, run, done, user);
  return RUBATO_OK;
}

uint64_t rubato_executor_unfinished(const rubato_executor* executor) {
  return executor->tasks().unfinished();
}

void rubato_executor_stats(const rubato_executor* executor, rubato_stats* stats, size_t size) {
  rubato::api::write_versioned(executor->stats(), stats, size);
}

void rubato_executor_group_stats(const rubato_executor* executor, uint32_t group,
                                 rubato_group_stats* stats, size_t size) {
  rubato::api::write_versioned(executor->group_stats(group), stats, size);
}

void rubato_executor_times(const rubato_executor* executor, uint32_t type, rubato_times* latency,
                           rubato_times* service) {
  const rubato::Runtime& runtime = executor->tasks().runtime();
  if (latency != nullptr) *latency = rubato::api::times_of(runtime.latency(type));
  if (service != nullptr) *service = rubato::api::times_of(runtime.service(type));
}

uint32_t rubato_executor_metrics_port(const rubato_executor* executor) {
  return executor->metrics_port();
}

int rubato_executor_trace(rubato_executor* executor, int wanted, rubato_error* error) {
  return rubato::api::tell(error, [&] { return executor->recorders().trace(wanted != 0); });
}

int rubato_executor_record(rubato_executor* executor, int wanted, rubato_error* error) {
  return rubato::api::tell(error, [&] { return executor->recorders().record(wanted != 0); });
}

int rubato_executor_write_profile(rubato_executor* executor, rubato_error* error) {
  return rubato::api::tell(error, [&] { return executor->recorders().write_profile(); });
}

rubato_cancellation* rubato_cancellation_create(void) {
  return reinterpret_cast<rubato_cancellation*>(new (std::nothrow) rubato::Cancellation);
}

void rubato_cancellation_cancel(rubato_cancellation* cancellation) {
  from_c(cancellation)->cancel();
}

void rubato_cancellation_release(rubato_cancellation* cancellation) {
  if (cancellation != nullptr) from_c(cancellation)->leave();
}

int64_t rubato_task_time_left_ns(void) {
  const rubato::Request* request = rubato::current_request();
  if (request == nullptr || request->deadline == rubato::Instant::never()) return 0;
  return std::max<int64_t>((request->deadline - rubato::now()).count(), 1);
}

int rubato_task_cancelled(void) {
  const rubato::Request* request = rubato::current_request();
  return request != nullptr && request->cancelled ? 1 : 0;
}

uint64_t rubato_task_trace(void) {
  const Task* task = Executor::current_task();
  return task == nullptr ? 0 : task->trace;
}
