// SPDX-License-Identifier: Apache-2.0
//
// CpuLoss: how long the calling thread was ready to run but had no CPU, because other threads had
// it or a quota was used up. The lost time is the wall time less the CPU time that the kernel
// counted for the thread and less the time that the thread slept by its own choice. Time that a
// hypervisor takes is counted only where the kernel knows of it. Reading the kernel's count is a
// system call of about a microsecond, so it is done on suspicion, and otherwise at most once per
// kInterval; time lost since the last reading, but before the stretch of time in question, may be
// taken for lost in that stretch. A thread that blocks in a system call has no CPU either.
//
// One per thread, used by that thread only.
#pragma once

#include "base/time.h"

namespace rubato {

class CpuLoss {
 public:
  // The thread has slept from `from` to `now`. That includes the little CPU time that falling
  // asleep takes, so the count starts anew every now and then.
  void slept(Instant from, Instant now) {
    asleep_ += now - from;
    restart_if_old(now);
  }
  void restart_if_old(Instant now) {
    if (now - since_ >= kInterval) restart(now);
  }

  // Counts from `now` on.
  void restart(Instant now);

  // The time lost since the count was started, at least zero, correct to some 50 us; starts the
  // count anew.
  Nanos take(Instant now);

 private:
  static constexpr Nanos kInterval = Nanos::millis(5);

  Instant since_;
  Nanos cpu_;
  Nanos asleep_;
};

// CPU time of the calling thread since it began, in the kernel's account.
Nanos thread_cpu_time();

}  // namespace rubato
