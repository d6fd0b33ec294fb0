// SPDX-License-Identifier: Apache-2.0
//
// Waiting in C: what a task of an executor, or a request of a server, may wait for without holding
// its worker. While it waits, its worker runs others; when its wait is over it has its turn again,
// perhaps on another worker. <rubato/wait.hpp> is the same interface in C++.
//
// Threads: every function from any thread. Called on a thread that runs no task or request, from a
// callback that is none (`classify`, `done`), or with foreign_runtime, a function that waits blocks
// the thread instead; so one mutex serves tasks and threads together. Not in signal handlers.
// Switching: a function that waits may switch, as a checkpoint does (<rubato/checkpoint.h>): a lock
// of another kind that the caller holds stays held, and nothing that belongs to a thread may be
// kept across it. In a non-preemptible region it switches all the same; the region goes on
// afterwards.
// Order: each object serves those that wait first come, first served, and what is released goes to
// the first of them at once; nobody overtakes.
// Limits: a `limit_ns` is a time from now in nanoseconds; 0 and less = do not wait,
// RUBATO_WAIT_FOREVER = no limit. The deadline of the task or request, its cancellation, and a stop
// at its drain limit end every wait but those of rubato_mutex_lock_always and rubato_offload.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUBATO_WAIT_FOREVER INT64_MAX

// How a wait has ended.
enum rubato_wait_result {
  RUBATO_WAIT_OK = 0,
  RUBATO_WAIT_TIMEOUT = 1,
  RUBATO_WAIT_CANCELLED = 2,  // the task is to end: its result is not wanted any more
  RUBATO_WAIT_CLOSED = 3,
  // The task cannot wait, since max_fibers are in use (counted, preemptions_denied), or there are
  // no descriptors left; of rubato_wait_fd also an error.
  RUBATO_WAIT_REFUSED = -1,
};

// Waits for so long. RUBATO_WAIT_OK, RUBATO_WAIT_CANCELLED or RUBATO_WAIT_REFUSED.
int rubato_sleep(int64_t time_ns);
// Lets the tasks that wait for their turn go first. On another thread: sched_yield.
void rubato_yield(void);

// Waits for events (POLLIN, POLLOUT, ... of <poll.h>) of a descriptor. RUBATO_WAIT_OK sets *came,
// if it is not null, to those that have come; POLLERR and POLLHUP come unasked. Regular files are
// always ready. Any number of tasks may wait for one descriptor, which must not be closed
// meanwhile. After RUBATO_WAIT_REFUSED *error, if that is not null, is the errno; EAGAIN =
// max_fibers are in use.
int rubato_wait_fd(int fd, short events, int64_t limit_ns, short* came, int* error);

// Runs `run(user)` on a helper thread and waits for its end: for calls that block the thread, in
// the kernel or in a library. A runtime has at most RUBATO_OFFLOAD_THREADS helpers, made when they
// are needed; further calls wait for one, first come, first served. It is not ended by a
// cancellation, since `run` would go on. On a thread that runs no task it calls `run` itself.
// RUBATO_WAIT_OK, or RUBATO_WAIT_REFUSED if `run` was not called: no thread could be made. `run`
// must not throw.
enum { RUBATO_OFFLOAD_THREADS = 16 };
int rubato_offload(void (*run)(void* user), void* user);

// A mutex. All zero bits are an unlocked one; it needs no end. Any task or thread may unlock it.
// rubato_mutex_lock takes a limit and returns an enum rubato_wait_result, as the waits below do;
// rubato_mutex_lock_always takes neither limit nor cancellation: for code that cannot end there,
// such as a clean-up. rubato_mutex_try_lock never waits; nonzero = locked.
typedef struct rubato_mutex {
  uint64_t opaque[4];
} rubato_mutex;
int rubato_mutex_lock(rubato_mutex* mutex, int64_t limit_ns);
void rubato_mutex_lock_always(rubato_mutex* mutex);
int rubato_mutex_try_lock(rubato_mutex* mutex);
void rubato_mutex_unlock(rubato_mutex* mutex);

// A condition variable; zero bits likewise. rubato_condition_wait unlocks the mutex, waits for a
// notification, and has the mutex locked again when it returns, whatever it returns; a task goes on
// once it has it. RUBATO_WAIT_REFUSED: it was not unlocked.
typedef struct rubato_condition {
  uint64_t opaque[4];
} rubato_condition;
int rubato_condition_wait(rubato_condition* condition, rubato_mutex* mutex, int64_t limit_ns);
void rubato_condition_notify_one(rubato_condition* condition);
void rubato_condition_notify_all(rubato_condition* condition);

// A semaphore; all zero bits are one without permits. After rubato_semaphore_close an acquire that
// finds no permit gives RUBATO_WAIT_CLOSED. rubato_semaphore_try_acquire: nonzero = acquired.
typedef struct rubato_semaphore {
  uint64_t opaque[6];
} rubato_semaphore;
int rubato_semaphore_acquire(rubato_semaphore* semaphore, int64_t limit_ns);
int rubato_semaphore_try_acquire(rubato_semaphore* semaphore);
void rubato_semaphore_release(rubato_semaphore* semaphore, uint64_t permits);
void rubato_semaphore_close(rubato_semaphore* semaphore);

#ifdef __cplusplus
}  // extern "C"
#endif
