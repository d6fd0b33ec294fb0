// SPDX-License-Identifier: Apache-2.0
#include "mechanism/cpu/this_worker.h"

namespace rubato {
namespace {

[[gnu::tls_model("initial-exec")]] thread_local constinit uint32_t t_worker = 0;

}  // namespace

// Not inlined: a fiber that moved to another thread must not see an address from before.
[[gnu::noinline]] uint32_t this_worker() {
  asm volatile("");
  return t_worker;
}

[[gnu::noinline]] void set_this_worker(uint32_t worker) {
  asm volatile("");
  t_worker = worker;
}

}  // namespace rubato
