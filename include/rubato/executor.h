// SPDX-License-Identifier: Apache-2.0
//
// Executor in C: the scheduler under a program that has sockets of its own. Any thread submits
// tasks; workers run them by the policy, and a long task never blocks a short one.
//
//   rubato_executor_create -> rubato_executor_submit, from any thread -> rubato_executor_destroy
//
// <rubato/executor.hpp> is the same interface in C++, with futures and coroutines. The rules for
// threads, errors and units are those of <rubato/rubato.h>. A task is like a request's handler: it
// may call checkpoints and the feedback functions, and it switches there and nowhere else. With an
// asynchronous mechanism of preemption (enum rubato_preempt) it may be left at any instruction.
#pragma once

#include <rubato/rubato.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rubato_executor rubato_executor;
typedef struct rubato_task rubato_task;
typedef struct rubato_cancellation rubato_cancellation;

enum { RUBATO_TASK_CLOSURE_BYTES = 128 };

// How a task has ended.
enum rubato_task_outcome {
  RUBATO_TASK_FINISHED = 0,
  RUBATO_TASK_FAILED = 1,     // its function returned anything but RUBATO_OK
  RUBATO_TASK_REFUSED = 2,    // not started: full queues, too long a wait, or a stop
  RUBATO_TASK_EXPIRED = 3,    // its deadline passed: not started, or told to end
  RUBATO_TASK_CANCELLED = 4,  // by its cancellation, or by a stop at its drain limit: likewise
};

// Runs on a worker. Returns RUBATO_OK; anything else: the task has failed.
typedef int (*rubato_task_run)(void* closure);
// Tells the end of a task: an enum rubato_task_outcome and, after an overload, the time before
// which a retry is useless, else 0. Called once for each task that was submitted; on a worker, and
// for a task that a stop has given up, on the thread that ends those left. Brief.
typedef void (*rubato_task_done)(void* closure, int outcome, int64_t retry_after_ns);

// A group of tasks, one of up to 14. Groups that have work share the workers by weight, each within
// one slice of its part; what one leaves is the others'. The policy orders the tasks that are in
// none; within a group they run as they came, and those that were preempted have one turn in eight
// while others come.
typedef struct rubato_group {
  size_t struct_size;  // sizeof(rubato_group), in each of them
  const char* name;    // in the metrics; not empty, and no other group's
  uint32_t weight;     // 1 .. 10000; tasks in no group have 100 by default
  uint32_t max_tasks;  // of the group, submitted and not done; 1 .. inbox_capacity; 0 = that
} rubato_group;

typedef struct rubato_executor_options {
  size_t struct_size;
  // The options of the scheduler, of `metrics_port` and `metrics_bind`, and of the files into which
  // is recorded (`trace_file`, `record_file`, `profile_file` and what goes with them); null = the
  // defaults. The other options of servers must have their defaults, as an executor has no port.
  const rubato_options* scheduler;
  // Submitted and not done; 1 .. 16777216, 65536 by default. A task counts until its worker is
  // through with it, shortly after its end was told. Addresses are reserved for all of them at the
  // start, memory is taken for as many as were there at once.
  uint32_t max_tasks;
  const char* const* type_names;  // in the metrics, for types 0 .. type_names_count - 1
  size_t type_names_count;        // 0 .. 256
  // 1 = the executor lives in its caller's loops: it has no threads but those of its metrics and
  // its files, and each worker of the scheduler's options, one unless told, is run by a loop: see
  // rubato_executor_run_loop. 0 by default.
  uint32_t in_loop;
  const rubato_group* groups;  // numbers 1 .. groups_count; max_tasks bounds tasks in none of them
  size_t groups_count;
  uint32_t weight;             // of the tasks in no group; 1 .. 10000, 100 by default
} rubato_executor_options;

// Why rubato_executor_run has returned.
enum rubato_loop_state {
  RUBATO_LOOP_IDLE = 0,     // nothing is to be done before the descriptor is readable
  RUBATO_LOOP_MORE = 1,     // its time is over; the descriptor is readable
  RUBATO_LOOP_STOPPED = 2,  // for good
};

// The attributes of one task; all fields are 0 by default. A task that another task (or a request
// of a server) submits has its deadline at the latest, and its trace, its cancellation and, in the
// same executor, its group unless others are given; not if it is detached.
typedef struct rubato_task_attributes {
  size_t struct_size;
  // 0 .. 255, chosen by the program; what is above counts as 255. Statistics are kept per type.
  // Policies tell 0 .. 62 apart at most, and take those above for one.
  uint32_t type;
  uint32_t is_long;      // 1 = the task may be preempted from the start
  uint32_t priority;     // of a long task: 0 .. 7, 0 is the most urgent level
  uint32_t is_control;   // 1 = control plane: keeps a share under any load
  // Time from the submission when the result is of no more use; 0 = none, negative = it is late.
  int64_t deadline_ns;
  int64_t expected_ns;   // service that it will need, for policies that go by size; 0 = unknown
  uint64_t trace;        // an identity to hand on, for rubato_task_trace
  rubato_cancellation* cancellation;  // null = none; the task holds it until its end
  uint32_t detached;
  // 1 = part of work that was accepted before: neither max_tasks nor a stop that still waits
  // refuses it. If the stop is over, it does not run.
  uint32_t is_continuation;
  uint32_t group;  // 1 .. groups_count; 0 = none is given. A number beyond is refused
} rubato_task_attributes;

// Set the defaults; `size` is sizeof *options, or sizeof *attributes. Any thread.
void rubato_executor_options_init(rubato_executor_options* options, size_t size);
void rubato_task_attributes_init(rubato_task_attributes* attributes, size_t size);

// Creates an executor and starts its workers; `options` may be null. Returns null, with a line in
// `error`, when an option is out of range, the policy is unknown, the metrics port is in use, a
// file cannot be written or the process may not have the addresses of so many tasks. Any thread.
rubato_executor* rubato_executor_create(const rubato_executor_options* options,
                                        rubato_error* error);

// Takes no new tasks and finishes those that were submitted, until the drain limit. Any thread, any
// number of times; does not block; safe in a signal handler.
void rubato_executor_stop(rubato_executor* executor);

// Blocks until a stop is over. Returns RUBATO_OK, or RUBATO_DRAIN_LIMIT when tasks were given up;
// RUBATO_ERROR at once in a task of this executor or a callback of one. Any thread. With `in_loop`,
// as in rubato_executor_destroy, the loops that the caller has run, and those that no thread has,
// run meanwhile; the threads of the others run them until RUBATO_LOOP_STOPPED. What a loop has that
// runs no more is given up at the drain limit.
int rubato_executor_join(rubato_executor* executor);

// Once a stop is over, ends as cancelled the tasks that it has given up, continuations that came
// later, and those that these ends submit; before, it does nothing. For what such tasks hold that
// is to be freed before the executor. Any thread but a worker, while no thread is in another call
// with it.
void rubato_executor_end_left(rubato_executor* executor);

// Stops, joins, ends what is left and frees the executor; null is allowed. Any thread, while no
// thread is in another call with it; in a task of this executor or a callback of one it ends the
// process with a line, as it would wait for itself.
void rubato_executor_destroy(rubato_executor* executor);

// With `in_loop` only. rubato_executor_run_loop runs tasks of loop 0 .. workers - 1 for about
// `budget_ns` and returns an enum rubato_loop_state; it never blocks. A long task gives the thread
// back at the end of its slice, a task without checkpoints at its own end. For each loop always the
// same thread, which may have several, and not in a task; else, or if there is no such loop, it
// returns RUBATO_ERROR. Once the executor stops, each loop is to be run until RUBATO_LOOP_STOPPED.
// rubato_executor_loop_fd is a descriptor that is readable when that loop is to be run, from the
// start and when it has stopped too, for poll, epoll or an event loop; the caller neither reads nor
// closes it. RUBATO_ERROR if there is no such loop. Any thread.
//
// Loops share their tasks: one goes to the loop that its submitter's thread has run last, from
// tasks and other threads to one that has nothing to run; a loop with more than it will run soon
// calls another one. After a checkpoint a task may go on in another loop. What it waits for is
// served by the loop that it waits in.
int rubato_executor_run_loop(rubato_executor* executor, uint32_t loop, int64_t budget_ns);
int rubato_executor_loop_fd(rubato_executor* executor, uint32_t loop);
// The same of loop 0.
int rubato_executor_run(rubato_executor* executor, int64_t budget_ns);
int rubato_executor_fd(rubato_executor* executor);

// Submits `run(user)`; `done(user, ...)` follows, unless it is null. `attributes` may be null, and
// `run` may not. Returns RUBATO_ERROR, and calls neither, when max_tasks (of all, or of its group)
// are underway, the executor stops or there is no such group, all counted (`refused`); also, and
// not counted, when the struct_size of the attributes is not set or they ask for what only a newer
// library has. Does not block. Any thread, tasks included; may switch at its end.
int rubato_executor_submit(rubato_executor* executor, const rubato_task_attributes* attributes,
                           rubato_task_run run, rubato_task_done done, void* user);

// The same in steps, for closures of up to RUBATO_TASK_CLOSURE_BYTES, aligned to 64 bytes: create
// the task, build the closure at rubato_task_closure, submit. `run` and `done` get the closure, and
// `done`, which is not null, destroys it. rubato_task_create returns null where
// rubato_executor_submit returns RUBATO_ERROR. rubato_task_try_create also returns null while every
// worker refuses tasks that waited too long (RUBATO_OVERLOAD_AQM), and sets *retry_after_ns to the
// time before which a retry is useless, else to 0. rubato_task_discard takes the place of
// rubato_task_submit, and calls nothing. All from any thread, as rubato_executor_submit.
rubato_task* rubato_task_create(rubato_executor* executor,
                                const rubato_task_attributes* attributes);
rubato_task* rubato_task_try_create(rubato_executor* executor,
                                    const rubato_task_attributes* attributes,
                                    int64_t* retry_after_ns);
void* rubato_task_closure(rubato_task* task);
void rubato_task_submit(rubato_executor* executor, rubato_task* task, rubato_task_run run,
                        rubato_task_done done);
void rubato_task_discard(rubato_executor* executor, rubato_task* task);

// Tasks that were submitted and are not done. Any thread.
uint64_t rubato_executor_unfinished(const rubato_executor* executor);
// As rubato_server_stats and rubato_server_times; an executor has no connections, and latency runs
// from the submission to the end. Any thread.
void rubato_executor_stats(const rubato_executor* executor, rubato_stats* stats, size_t size);
void rubato_executor_times(const rubato_executor* executor, uint32_t type, rubato_times* latency,
                           rubato_times* service);

// The figures of a group, 0 = of the tasks in none, since the start; all 0 for a number beyond. Any
// thread.
typedef struct rubato_group_stats {
  size_t struct_size;
  uint64_t requests;    // finished
  uint64_t refused;     // for overload, or because a queue was full
  uint64_t unfinished;  // submitted and not done, now; of group 0 with those of the control plane
  int64_t service_ns;   // time on workers of those that finished, in all
  int64_t waited_ns;    // their time from submission to the first slice, in all
} rubato_group_stats;
void rubato_executor_group_stats(const rubato_executor* executor, uint32_t group,
                                 rubato_group_stats* stats, size_t size);
// 0 = none. Any thread.
uint32_t rubato_executor_metrics_port(const rubato_executor* executor);

// The files that options.scheduler names. Each begins as the executor is created and is whole once
// the executor is destroyed. All return RUBATO_ERROR, with a line in `error`, if the file cannot be
// written, there is none or the caller is a worker. They may block for the disk. Any thread.
//
// rubato_executor_trace begins a trace in trace_file, written anew, if `wanted` is nonzero, else
// ends it, and then the file is whole. What is so already stays. At an end it also returns
// RUBATO_ERROR if the last trace is not whole, as on a full disk, though it had ended by itself
// before. After rubato_executor_join that is said of all tasks.
// rubato_executor_record does the same with a recording of the tasks in record_file: type,
// submission, service. A task of the control plane, or submitted before the beginning, is in none.
// rubato_executor_write_profile writes profile_file as it is now, else written every 10 s: with all
// tasks that have ended, and with the submissions until 0.25 s ago, or after a stop with all. Also
// RUBATO_ERROR if fewer than two tasks came. A later failure is logged and tried again.
int rubato_executor_trace(rubato_executor* executor, int wanted, rubato_error* error);
int rubato_executor_record(rubato_executor* executor, int wanted, rubato_error* error);
int rubato_executor_write_profile(rubato_executor* executor, rubato_error* error);

// Tells tasks that their results are not wanted any more: those that have not started are not
// started, and the others are told at their next checkpoint. The maker's share is dropped by
// rubato_cancellation_release, which takes null; each task has one of its own. Null when memory
// runs out. Any thread.
rubato_cancellation* rubato_cancellation_create(void);
void rubato_cancellation_cancel(rubato_cancellation* cancellation);
void rubato_cancellation_release(rubato_cancellation* cancellation);

// Of the task or request that the caller runs in; 0 elsewhere, on any thread. The time left until
// its deadline, at least 1; 0 = it has none. Nonzero if it should end. Its trace; requests of
// servers have none.
int64_t rubato_task_time_left_ns(void);
int rubato_task_cancelled(void);
uint64_t rubato_task_trace(void);

#ifdef __cplusplus
}  // extern "C"
#endif
