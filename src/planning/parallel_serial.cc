// SPDX-License-Identifier: Apache-2.0
//
// planning/parallel.h where there are no threads: one task after the other.
#include "planning/parallel.h"

namespace rubato::planning {

uint32_t processors() { return 1; }

void run_parallel(size_t count, uint32_t, const std::atomic<bool>& stop,
                  const std::function<bool(size_t task, const TaskProgress& progress)>& run,
                  const std::function<void(double)>& tick) {
  for (size_t task = 0; task < count; ++task) {
    if (task > 0 && stop.load(std::memory_order_relaxed)) return;
    const TaskProgress progress = [&](double done) {
      tick((static_cast<double>(task) + done) / static_cast<double>(count));
      return !stop.load(std::memory_order_relaxed);
    };
    if (!run(task, progress)) return;
  }
}

}  // namespace rubato::planning
