// SPDX-License-Identifier: Apache-2.0
//
// CpuLoss: for how long the calling thread was ready to run and had no CPU, because others had it
// or a quota was used up. The kernel counts a thread's CPU time; what is left of the wall time,
// less what the thread slept of its own will, it has lost. What a hypervisor takes is counted only
// where the kernel knows of it. Reading the kernel's count is a system call of about a microsecond,
// so it is done on suspicion, and otherwise at most once per kInterval; what was lost before a
// stretch of time, but since then, may be taken for lost in it. A thread that blocks in a system
// call has no CPU either.
//
// One per thread, its thread only.
#pragma once

#include "base/time.h"

namespace rubato {

class CpuLoss {
 public:
  // The thread has slept from `from` to `now`. The little CPU time that falling asleep takes is
  // hidden in there, so the count starts anew every now and then.
  void slept(Instant from, Instant now) {
    asleep_ += now - from;
    restart_if_old(now);
  }
  void restart_if_old(Instant now) {
    if (now - since_ >= kInterval) restart(now);
  }

  // Counts from `now` on.
  void restart(Instant now);

  // What was lost since the count was started, right to some 50 us; starts it anew. At least zero.
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
