// SPDX-License-Identifier: Apache-2.0
#include "mechanism/cpu/this_worker.h"

thread_local constinit uint32_t rubato_worker_word = 0;

namespace rubato {

// Not inlined: a fiber that moved to another thread must not see an address from before.
[[gnu::noinline]] uint32_t this_worker() {
  asm volatile("");
  const uint32_t word = rubato_worker_word;
  return word == 0 ? 0 : word - 1;
}

[[gnu::noinline]] void set_this_worker(uint32_t worker) {
  asm volatile("");
  rubato_worker_word = worker + 1;
}

[[gnu::noinline]] void set_no_worker() {
  asm volatile("");
  rubato_worker_word = 0;
}

#if !defined(__x86_64__)
[[gnu::noinline]] bool on_worker() {
  asm volatile("");
  return rubato_worker_word != 0;
}
#endif

}  // namespace rubato
