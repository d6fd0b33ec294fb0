// SPDX-License-Identifier: Apache-2.0
//
// WorkerTimer: a one-shot POSIX timer that interrupts the thread it was made on, which has a signal
// line open (signal.h). Arming is a system call, dear on some machines: 1 us on bare metal, 10 us
// in a VM that traps on timers; so the owner arms it rarely and lets an early interrupt find that
// it is early. Used by its thread only, handler included.
#pragma once

#include <ctime>
#include <memory>

#include "base/result.h"
#include "base/time.h"

namespace rubato {

class WorkerTimer {
 public:
  // Tells whether a timer can be made, by making one and deleting it.
  static Status available();

  // For the calling thread.
  static Result<std::unique_ptr<WorkerTimer>> make();
  ~WorkerTimer();
  WorkerTimer(const WorkerTimer&) = delete;
  WorkerTimer& operator=(const WorkerTimer&) = delete;

  // Interrupts once, `after` from now (at least 1 ns). Replaces what was armed.
  void arm(Nanos after);
  void disarm();

 private:
  explicit WorkerTimer(timer_t timer) : timer_(timer) {}
  timer_t timer_;
};

}  // namespace rubato
