// SPDX-License-Identifier: Apache-2.0
//
// Numbered tasks on a few threads, taken in order by threads as they become free. Called from the
// main thread, which meanwhile shows how far they are.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace rubato::planning {

// What a task calls now and then with the share of it that is done, from its own thread. False =
// give up: the caller asked to stop, or another task failed.
using TaskProgress = std::function<bool(double)>;

// The processors of this machine, 1 or more: a sensible number of threads.
uint32_t processors();

// Does task 0..count-1 and returns when all have ended. A task returns false when it failed; those
// that have not begun are then left out, as they are when `stop` becomes true. Task 0 is begun in
// any case, so that there is something to print. `tick` is called now and then with the share of
// all tasks that is done, on the calling thread.
void run_parallel(size_t count, uint32_t threads, const std::atomic<bool>& stop,
                  const std::function<bool(size_t task, const TaskProgress& progress)>& run,
                  const std::function<void(double)>& tick);

}  // namespace rubato::planning
