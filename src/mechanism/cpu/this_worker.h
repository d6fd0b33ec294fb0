// SPDX-License-Identifier: Apache-2.0
//
// The number of the worker that the calling thread is, for data that is kept per worker; 0 on
// every other thread. A fiber may be on another worker after each switch, so the number is a hint
// where to write without disturbing others, and nothing may depend on its being right. The runtime
// sets it.
#pragma once

#include <cstdint>

namespace rubato {

uint32_t this_worker();
// The thread is that worker, until it is none.
void set_this_worker(uint32_t worker);
void set_no_worker();

}  // namespace rubato

extern "C" {
// Not for direct use: the number plus one; 0 = none.
extern thread_local uint32_t rubato_worker_word __attribute__((tls_model("initial-exec")));
}

namespace rubato {

// Whether the thread is a worker, which a fiber cannot change by moving to another one: so the
// answer stays right.
#if defined(__x86_64__)
// In no other way, so that no compiler keeps the address of a thread's word across a switch.
[[gnu::always_inline]] inline bool on_worker() {
  uint64_t offset;
  bool is_one;
  asm volatile(
      "movq rubato_worker_word@gottpoff(%%rip), %1\n\t"
      "cmpl $0, %%fs:(%1)"
      : "=@ccne"(is_one), "=r"(offset));
  return is_one;
}
#else
bool on_worker();
#endif

}  // namespace rubato
