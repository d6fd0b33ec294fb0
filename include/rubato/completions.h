// SPDX-License-Identifier: Apache-2.0
//
// Completions: the ends of tasks as a queue with a descriptor, for programs that cannot be called
// on a worker: another language's runtime, or a loop that has descriptors only. C and C++; any
// thread.
//
//   rubato_completions_create -> rubato_completions_submit, whose end rubato_completions_next tells
//   once the descriptor is readable -> rubato_executor_destroy -> rubato_completions_destroy
//
// The rules of <rubato/executor.h> hold.
#pragma once

#include <rubato/executor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rubato_completions rubato_completions;

typedef struct rubato_completion {
  uint64_t id;             // as it was submitted
  int64_t retry_after_ns;  // after an overload: a retry before is useless; else 0
  int32_t outcome;         // enum rubato_task_outcome
  int32_t reserved;
} rubato_completion;

// Null when memory or descriptors run out. Does not block.
rubato_completions* rubato_completions_create(void);
// After the executors of all its tasks were destroyed; null is allowed.
void rubato_completions_destroy(rubato_completions* completions);

// As rubato_executor_submit, with a name for the task in place of `done`. On RUBATO_ERROR nothing
// was submitted, and nothing will be told.
int rubato_completions_submit(rubato_completions* completions, rubato_executor* executor,
                              const rubato_task_attributes* attributes, rubato_task_run run,
                              void* user, uint64_t id);

// Takes up to `room` ends of tasks, in their order; returns how many. Never blocks.
size_t rubato_completions_next(rubato_completions* completions, rubato_completion* to, size_t room);
// Readable while there is something to take, for poll, epoll or an event loop; the caller neither
// reads nor closes it.
int rubato_completions_fd(const rubato_completions* completions);

#ifdef __cplusplus
}  // extern "C"
#endif
