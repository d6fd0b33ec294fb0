// SPDX-License-Identifier: Apache-2.0
//
// Overseer<P>: looks after the workers as a whole: their cores (CoreLooks), those that are stuck
// (Watchdog) and those whose request waits for a suspended one (LockWatchdog). The runtime's timer
// core calls look(); without a timer core a thread runs watch().
#pragma once

#include <memory>
#include <vector>

#include "mechanism/clock/clock.h"
#include "runtime/lock_watchdog.h"
#include "runtime/watchdog.h"
#include "runtime/workers_left.h"

namespace rubato {

template <Policy P>
class Overseer {
 public:
  Overseer(RuntimeState<P>& shared, std::vector<std::unique_ptr<LiveWorker<P>>>& workers)
      : shared_(shared), watchdog_(shared), lock_watchdog_(shared, workers) {}

  bool is_needed() const {
    return shared_.cores.allocates() || Watchdog<P>::is_needed(shared_.options) ||
           LockWatchdog<P>::is_needed(shared_.options);
  }

  void look() {
    const Instant at = now();
    shared_.core_looks.look_if_due(at);
    watchdog_.look_if_due(at);
    lock_watchdog_.look_if_due(at);
  }

  // Workers look at the cores themselves whenever they poll. This thread looks when all workers
  // that have a core run long requests, and for workers that are stuck. It looks less often while
  // all workers are asleep, and after kQuietLooks such looks not at all.
  void watch(WorkersLeft& workers_left) {
    uint32_t quiet = 0;
    while (workers_left.any()) {
      if (!shared_.sleepers.all_asleep()) {
        quiet = 0;
        look();
      } else if (++quiet > kQuietLooks) {
        shared_.sleepers.wait_while_all_asleep();
        quiet = 0;
      }
      workers_left.pause(quiet == 0 ? Watchdog<P>::kPeriod : Watchdog<P>::kQuietPeriod);
    }
  }

 private:
  // After so many looks that found all workers asleep the watching thread sleeps until a worker
  // wakes and notifies it.
  static constexpr uint32_t kQuietLooks = 16;

  RuntimeState<P>& shared_;
  Watchdog<P> watchdog_;
  LockWatchdog<P> lock_watchdog_;
};

}  // namespace rubato
