// SPDX-License-Identifier: Apache-2.0
//
// cpu_serialize(): for measuring. Waits until every instruction before it has been done, loads
// included, so that a reading of the cycle counter after it cannot overtake them. Any thread.
#pragma once

#include <atomic>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace rubato {

inline void cpu_serialize() {
#if defined(__x86_64__)
  _mm_lfence();
#elif defined(__aarch64__)
  asm volatile("dsb ish\n\tisb" ::: "memory");
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace rubato
