// SPDX-License-Identifier: Apache-2.0
//
// cpu_pause(): the pause of a spinning loop between two reads. It tells the processor to give its
// hyper-thread sibling the pipeline for a moment (10 to 140 cycles, by model). Any thread.
#pragma once

#include <atomic>

namespace rubato {

inline void cpu_pause() {
  // For the compiler only; virtual time knows a pause by it (virtual/instrumentation.cc).
  std::atomic_signal_fence(std::memory_order_acq_rel);
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // `isb` waits about as long as x86's pause; `yield` is a no-op on most cores.
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace rubato
