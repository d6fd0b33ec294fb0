// SPDX-License-Identifier: Apache-2.0
//
// Executor: the scheduler under a program that has sockets, threads or an event loop of its own;
// <rubato/executor.h> has the rules in full. Header only; the calls into the library are C.
//
//   auto executor = rubato::Executor::create();
//   std::future<int> sum = executor->submit([] { return 1 + 1; });          // a future
//   executor->execute([] { work(); }, {.type = 1, .is_long = true});           // nobody waits
//   executor->execute([] { work(); }, {}, [](rubato::Outcome) { answer(); });  // a callback
//   co_await executor->schedule();                                          // a coroutine
//
// None of these blocks. A closure of up to 128 bytes, callback included, is kept in the task; a
// larger one is allocated, and so is the state of a future. An exception of a closure goes into its
// future; without a future the outcome is kFailed, and Stats::failed counts it. Callbacks and
// destructors of closures must not throw.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <rubato/executor.h>
#include <rubato/feedback.hpp>
#include <rubato/options.hpp>
#include <rubato/recorded.hpp>
#include <rubato/status.hpp>

namespace rubato::inline v1 {

enum class Outcome : int {
  kFinished = RUBATO_TASK_FINISHED,
  kFailed = RUBATO_TASK_FAILED,        // the closure threw
  kRefused = RUBATO_TASK_REFUSED,      // not started: full queues, too long a wait, or a stop
  kExpired = RUBATO_TASK_EXPIRED,      // its deadline passed
  kCancelled = RUBATO_TASK_CANCELLED,  // its Cancellation, or a stop that gave it up
};

// The refusal of a task before it was submitted.
struct Overloaded {
  std::chrono::nanoseconds retry_after{};  // the time before which a retry is useless; 0 = unknown
};

// In the future of a task that has not run to its end.
class TaskError : public std::runtime_error {
 public:
  explicit TaskError(Outcome outcome, std::chrono::nanoseconds retry_after = {})
      : std::runtime_error(text(outcome)), outcome_(outcome), retry_after_(retry_after) {}
  Outcome outcome() const { return outcome_; }
  std::chrono::nanoseconds retry_after() const { return retry_after_; }

 private:
  static const char* text(Outcome outcome) {
    switch (outcome) {
      case Outcome::kRefused: return "task refused: the executor is overloaded or stops";
      case Outcome::kExpired: return "task ended: its deadline has passed";
      case Outcome::kCancelled: return "task cancelled";
      case Outcome::kFinished:
      case Outcome::kFailed: break;
    }
    return "task failed";
  }

  Outcome outcome_;
  std::chrono::nanoseconds retry_after_;
};

// Ends tasks whose results are not wanted any more: it is given to them in their attributes, and
// they hand it on to the tasks that they submit. Copies are the same cancellation. Any thread.
class Cancellation {
 public:
  Cancellation() : c_(rubato_cancellation_create(), &rubato_cancellation_release) {
    if (c_ == nullptr) throw std::bad_alloc();
  }
  void cancel() const noexcept { rubato_cancellation_cancel(c_.get()); }
  rubato_cancellation* c() const { return c_.get(); }

 private:
  std::shared_ptr<rubato_cancellation> c_;
};

struct TaskAttributes {
  uint32_t type = 0;        // 0 .. 255, chosen by the program; statistics are kept per type
  bool is_long = false;     // it may be preempted from the start
  uint32_t priority = 0;    // of a long task: 0 .. 7, 0 is the most urgent level
  bool is_control = false;  // control plane: keeps a share under any load
  // From now, when the result is of no more use; 0 = none, negative = it is late already.
  std::chrono::nanoseconds deadline{};
  std::chrono::nanoseconds expected{};  // service, for policies that go by size; 0 = unknown
  uint64_t trace = 0;       // an identity that its own tasks inherit
  std::optional<Cancellation> cancellation{};
  bool detached = false;    // nothing is inherited from the task that submits it
  // Part of work that was accepted before: neither max_tasks nor a stop that still waits refuses
  // it.
  bool is_continuation = false;
  uint32_t group = 0;  // 1 and up, in the order of ExecutorOptions::groups; 0 = none is given
};

// Tasks that share the workers with the others by weight: rubato_group has what that means.
struct Group {
  std::string name{};      // in the metrics
  uint32_t weight = 100;   // 1 .. 10000
  uint32_t max_tasks = 0;  // submitted and not done; 0 = Options::inbox_capacity, the most
};
using GroupStats = rubato_group_stats;

struct ExecutorOptions {
  Options scheduler{};  // ports and connections keep their defaults, but for metrics
  uint32_t max_tasks = 65536;  // submitted and not done; 1 .. 16777216
  std::vector<std::string> type_names{};  // in the metrics
  bool in_loop = false;  // no threads: Executor::run runs the workers, 1 unless told, in loops
  uint32_t weight = 100;  // of the tasks in no group; 1 .. 10000
  std::vector<Group> groups{};  // 14 at most
};

// Why Executor::run has returned.
enum class LoopState : int {
  kIdle = RUBATO_LOOP_IDLE,        // nothing is to be done before the descriptor is readable
  kMore = RUBATO_LOOP_MORE,        // its time is over
  kStopped = RUBATO_LOOP_STOPPED,  // for good
};

namespace detail {

// A task that is still to be submitted; otherwise it is discarded.
class Reserved {
 public:
  Reserved(rubato_executor* executor, rubato_task* task) : executor_(executor), task_(task) {}
  ~Reserved() {
    if (task_ != nullptr) rubato_task_discard(executor_, task_);
  }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;
  explicit operator bool() const { return task_ != nullptr; }
  rubato_task* c() const { return task_; }
  void submit(rubato_task_run run, rubato_task_done done) && {
    rubato_task_submit(executor_, std::exchange(task_, nullptr), run, done);
  }

 private:
  rubato_executor* executor_;
  rubato_task* task_;
};

// A closure as the library sees it: in the task if it fits, else allocated. `C` has run(), which
// returns whether the task has succeeded, and done(Outcome, nanoseconds).
template <class C>
struct Stored {
  static constexpr bool kFits = sizeof(C) <= RUBATO_TASK_CLOSURE_BYTES && alignof(C) <= 64 &&
                                std::is_nothrow_move_constructible_v<C>;

  static C& at(void* closure) {
    if constexpr (kFits) return *std::launder(static_cast<C*>(closure));
    else return **static_cast<C**>(closure);
  }
  static int run(void* closure) noexcept { return at(closure).run() ? RUBATO_OK : RUBATO_ERROR; }
  static void done(void* closure, int outcome, int64_t retry_after_ns) noexcept {
    C& stored = at(closure);
    stored.done(static_cast<Outcome>(outcome), std::chrono::nanoseconds(retry_after_ns));
    if constexpr (kFits) stored.~C();
    else delete &stored;
  }

  static void submit(Reserved&& task, C&& closure) {
    void* const to = rubato_task_closure(task.c());
    if constexpr (kFits) ::new (to) C(std::move(closure));
    else *static_cast<C**>(to) = new C(std::move(closure));
    std::move(task).submit(&run, &done);
  }
};

struct NoCallback {
  void operator()(Outcome) const noexcept {}
};

// A closure and its callback, which may take the outcome, or that and the time to wait.
template <class F, class D>
struct Executed {
  F function;
  D callback;

  bool run() {
    try {
      function();
      return true;
    } catch (...) {  // Cancelled among them
      return false;
    }
  }
  void done(Outcome outcome, std::chrono::nanoseconds retry_after) {
    if constexpr (std::is_invocable_v<D&, Outcome, std::chrono::nanoseconds>) {
      callback(outcome, retry_after);
    } else {
      callback(outcome);
    }
  }
};

// A closure and its promise. An exception is told by done(), after it was counted.
template <class F, class R>
struct Promised {
  F function;
  std::promise<R> promise;
  std::exception_ptr thrown;

  bool run() {
    try {
      if constexpr (std::is_void_v<R>) {
        function();
        promise.set_value();
      } else {
        promise.set_value(function());
      }
      return true;
    } catch (const Cancelled&) {
      return false;
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
  }
  void done(Outcome outcome, std::chrono::nanoseconds retry_after) {
    if (outcome == Outcome::kFinished) return;
    if (thrown == nullptr) thrown = std::make_exception_ptr(TaskError(outcome, retry_after));
    promise.set_exception(thrown);
  }
};

inline rubato_task_attributes c_of(const TaskAttributes& attributes) {
  rubato_task_attributes c{};
  c.struct_size = sizeof c;
  c.type = attributes.type;
  c.is_long = attributes.is_long ? 1 : 0;
  c.priority = attributes.priority;
  c.is_control = attributes.is_control ? 1 : 0;
  c.deadline_ns = attributes.deadline.count();
  c.expected_ns = attributes.expected.count();
  c.trace = attributes.trace;
  c.cancellation = attributes.cancellation ? attributes.cancellation->c() : nullptr;
  c.detached = attributes.detached ? 1 : 0;
  c.is_continuation = attributes.is_continuation ? 1 : 0;
  c.group = attributes.group;
  return c;
}

}  // namespace detail

// The task or request that the caller runs in. Elsewhere there is none: no deadline, no trace.
namespace this_task {
// The time left until the deadline, at least 1 ns; 0 = there is none.
inline std::chrono::nanoseconds time_left() {
  return std::chrono::nanoseconds(rubato_task_time_left_ns());
}
inline bool is_cancelled() { return rubato_task_cancelled() != 0; }
inline uint64_t trace() { return rubato_task_trace(); }
}  // namespace this_task

class Executor : public Recorded<Executor, rubato_executor_trace, rubato_executor_record,
                                 rubato_executor_write_profile> {
 public:
  // Starts the workers. Fails with one line when an option is out of range, or the policy unknown.
  static Result<Executor> create(const ExecutorOptions& options = {}) {
    rubato_executor_options c;
    rubato_executor_options_init(&c, sizeof c);
    detail::COptions scheduler(options.scheduler);
    c.scheduler = &scheduler.c;
    c.max_tasks = options.max_tasks;
    std::vector<const char*> names;
    for (const std::string& name : options.type_names) {
      names.push_back(scheduler.texts.of("type_names", name));
    }
    c.type_names = names.data();
    c.type_names_count = names.size();
    c.in_loop = options.in_loop ? 1 : 0;
    c.weight = options.weight;
    std::vector<rubato_group> groups;
    for (const Group& group : options.groups) {
      groups.push_back({sizeof(rubato_group), scheduler.texts.of("groups", group.name),
                        group.weight, group.max_tasks});
    }
    c.groups = groups.data();
    c.groups_count = groups.size();
    if (!scheduler.texts.error.empty()) return Error{scheduler.texts.error};
    rubato_error error{};
    Executor executor(rubato_executor_create(&c, &error));
    if (executor.c_ == nullptr) return Error{error.text};
    return executor;
  }

  // Submits a closure that nobody waits for. `callback` is called with the Outcome, or with that
  // and the time to wait before a retry (nanoseconds), when the task has ended. False: max_tasks
  // are underway, the executor stops or has no such group; nothing is called then.
  template <class F>
  bool execute(F&& function) {
    return store(create_task(), std::forward<F>(function), detail::NoCallback());
  }
  template <class F, class D = detail::NoCallback>
  bool execute(F&& function, const TaskAttributes& attributes, D&& callback = {}) {
    return store(create_task(attributes), std::forward<F>(function), std::forward<D>(callback));
  }

  // The same, but nothing is submitted while every worker refuses tasks that waited too long
  // (Overload::kAqm): nothing returned = submitted.
  template <class F, class D = detail::NoCallback>
  std::optional<Overloaded> try_execute(F&& function, const TaskAttributes& attributes = {},
                                     D&& callback = {}) {
    Overloaded overloaded;
    detail::Reserved task = try_create_task(attributes, overloaded);
    if (!task) return overloaded;
    store(std::move(task), std::forward<F>(function), std::forward<D>(callback));
    return std::nullopt;
  }

  // Submits a closure; the future has its value, its exception, or a TaskError that says why it has
  // not run to its end. Waiting for a future blocks the thread: in a task, use schedule() or
  // callbacks.
  template <class F, class R = std::invoke_result_t<std::decay_t<F>&>>
  std::future<R> submit(F&& function) {
    return promise<R>(create_task(), std::forward<F>(function));
  }
  template <class F, class R = std::invoke_result_t<std::decay_t<F>&>>
  std::future<R> submit(F&& function, const TaskAttributes& attributes) {
    return promise<R>(create_task(attributes), std::forward<F>(function));
  }

  // As try_execute, with a future.
  template <class F, class R = std::invoke_result_t<std::decay_t<F>&>>
  std::variant<std::future<R>, Overloaded> try_submit(F&& function,
                                                      const TaskAttributes& attributes = {}) {
    Overloaded overloaded;
    detail::Reserved task = try_create_task(attributes, overloaded);
    if (!task) return overloaded;
    return promise<R>(std::move(task), std::forward<F>(function));
  }

  // An awaitable: the coroutine goes on as a task of this executor. If it cannot, co_await throws
  // a TaskError, on the caller's thread or on a worker.
  class Scheduled {
   public:
    Scheduled(Executor& executor, TaskAttributes attributes)
        : executor_(executor), attributes_(std::move(attributes)) {}
    bool await_ready() const noexcept { return false; }
    // Once it is submitted the coroutine may run, and this object be gone.
    bool await_suspend(std::coroutine_handle<> coroutine) {
      detail::Reserved task = executor_.create_task(attributes_);
      if (!task) return false;
      detail::Stored<Resumed>::submit(std::move(task), Resumed{this, coroutine});
      return true;
    }
    void await_resume() const {
      if (outcome_ != Outcome::kFinished) throw TaskError(outcome_, retry_after_);
    }

   private:
    struct Resumed {
      Scheduled* awaited;  // null once the coroutine has gone on
      std::coroutine_handle<> coroutine;

      bool run() {
        std::exchange(awaited, nullptr)->outcome_ = Outcome::kFinished;
        coroutine.resume();
        return true;
      }
      void done(Outcome outcome, std::chrono::nanoseconds retry_after) {
        if (awaited == nullptr) return;
        awaited->outcome_ = outcome;
        awaited->retry_after_ = retry_after;
        coroutine.resume();
      }
    };

    Executor& executor_;
    TaskAttributes attributes_;
    Outcome outcome_ = Outcome::kRefused;
    std::chrono::nanoseconds retry_after_{};
  };
  Scheduled schedule(TaskAttributes attributes = {}) { return {*this, std::move(attributes)}; }

  // With ExecutorOptions::in_loop only. run() runs tasks for about `budget` and never blocks; a
  // long task gives the thread back at the end of its slice. For each loop, 0 .. Options::workers
  // - 1, always the same thread, and not in a task; once the executor stops, until kStopped. fd()
  // is readable when that loop is to be run; it is neither read nor closed. Loops share their
  // tasks: see rubato_executor_run_loop.
  LoopState run(std::chrono::nanoseconds budget, uint32_t loop = 0) {
    return static_cast<LoopState>(rubato_executor_run_loop(c_.get(), loop, budget.count()));
  }
  int fd(uint32_t loop = 0) const { return rubato_executor_loop_fd(c_.get(), loop); }

  // Takes no new tasks and finishes those that it has, until Options::drain_limit. Does not block.
  void stop() noexcept { rubato_executor_stop(c_.get()); }
  // Blocks until a stop is over; true: every task has ended. False at once in one of its own tasks.
  // The destructor stops and joins, and ends the process with a line in one of them. With `in_loop`
  // the caller's loops run meanwhile, and those that no thread has run.
  bool join() { return rubato_executor_join(c_.get()) == RUBATO_OK; }
  // Once a stop is over, ends the tasks that it has given up and continuations that came later,
  // for what they hold; the destructor does so too. No other thread uses the executor.
  void end_left() noexcept { rubato_executor_end_left(c_.get()); }

  // Tasks that were submitted and are not done.
  uint64_t unfinished() const { return rubato_executor_unfinished(c_.get()); }
  Stats stats() const {
    Stats stats;
    rubato_executor_stats(c_.get(), &stats, sizeof stats);
    return stats;
  }
  // Of a group by its number; 0 = of the tasks in none.
  GroupStats group_stats(uint32_t group) const {
    GroupStats stats;
    rubato_executor_group_stats(c_.get(), group, &stats, sizeof stats);
    return stats;
  }
  Times times(uint32_t type) const {
    Times times;
    rubato_executor_times(c_.get(), type, &times.latency, &times.service);
    return times;
  }
  uint32_t metrics_port() const { return rubato_executor_metrics_port(c_.get()); }  // 0 = none

  rubato_executor* c() const { return c_.get(); }

 private:
  struct Destroy {
    void operator()(rubato_executor* c) const { rubato_executor_destroy(c); }
  };

  explicit Executor(rubato_executor* c) : c_(c) {}

  detail::Reserved create_task() { return {c_.get(), rubato_task_create(c_.get(), nullptr)}; }
  detail::Reserved create_task(const TaskAttributes& attributes) {
    const rubato_task_attributes c = detail::c_of(attributes);
    return {c_.get(), rubato_task_create(c_.get(), &c)};
  }
  detail::Reserved try_create_task(const TaskAttributes& attributes, Overloaded& overloaded) {
    const rubato_task_attributes c = detail::c_of(attributes);
    int64_t retry_after_ns = 0;
    rubato_task* const task = rubato_task_try_create(c_.get(), &c, &retry_after_ns);
    overloaded.retry_after = std::chrono::nanoseconds(retry_after_ns);
    return {c_.get(), task};
  }
  template <class F, class D>
  static bool store(detail::Reserved&& task, F&& function, D&& callback) {
    if (!task) return false;
    using Closure = detail::Executed<std::decay_t<F>, std::decay_t<D>>;
    detail::Stored<Closure>::submit(
        std::move(task), Closure{std::forward<F>(function), std::forward<D>(callback)});
    return true;
  }
  template <class R, class F>
  static std::future<R> promise(detail::Reserved&& task, F&& function) {
    if (!task) {
      std::promise<R> refused;
      refused.set_exception(std::make_exception_ptr(TaskError(Outcome::kRefused)));
      return refused.get_future();
    }
    using Closure = detail::Promised<std::decay_t<F>, R>;
    Closure closure{std::forward<F>(function), {}, {}};
    std::future<R> future = closure.promise.get_future();
    detail::Stored<Closure>::submit(std::move(task), std::move(closure));
    return future;
  }

  std::unique_ptr<rubato_executor, Destroy> c_;
};

}  // namespace rubato::inline v1
