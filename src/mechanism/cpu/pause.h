// SPDX-License-Identifier: Apache-2.0
//
// cpu_pause(): the pause of a spinning loop between two reads. It tells the processor to give its
// hyper-thread sibling the pipeline for a moment (10 to 140 cycles, by model). Any thread.
#pragma once

namespace rubato {

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // `isb` waits about as long as x86's pause; `yield` is a no-op on most cores.
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace rubato
