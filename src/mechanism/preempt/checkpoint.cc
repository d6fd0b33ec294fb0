// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/checkpoint.h"

#include <limits>

thread_local int32_t rubato_checkpoint_budget = std::numeric_limits<int32_t>::max();

// Never inlined, so that the thread's word is looked up afresh at every call.
[[gnu::noinline]] void rubato_checkpoint(void) {
  asm volatile("" ::: "memory");
  if (--rubato_checkpoint_budget < 0) rubato_checkpoint_slow();
}
