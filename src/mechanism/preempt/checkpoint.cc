// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/checkpoint.h"

#include <atomic>
#include <cerrno>

// Used by assembly too, which link-time optimisation does not look into.
[[gnu::used]] thread_local int32_t rubato_checkpoint_budget = rubato::kCheckpointNever;

#if defined(__x86_64__)
// Read by rubato_checkpoint_enter. Zero until it is set at program start, when no budget is used up
// yet.
extern "C" __attribute__((visibility("hidden"))) const bool rubato_checkpoint_has_avx;
const bool rubato_checkpoint_has_avx = __builtin_cpu_supports("avx") != 0;
#endif

// Never inlined, so that the thread's word is looked up afresh at every call.
[[gnu::noinline]] int rubato_checkpoint(void) {
  asm volatile("" ::: "memory");
  const int32_t left = __atomic_load_n(&rubato_checkpoint_budget, __ATOMIC_RELAXED) - 1;
  __atomic_store_n(&rubato_checkpoint_budget, left, __ATOMIC_RELAXED);
  return left < 0 ? rubato_checkpoint_slow() : 0;
}

namespace {
// Written once at start and read by threads that are made later, or long after: relaxed would do,
// release and acquire cost nothing here.
std::atomic<bool (*)()> g_handler{nullptr};
}  // namespace

// The caller's errno moves with the request. It is looked up afresh on either side of the switch:
// the library's own look-up is declared `const`, so that a compiler may keep its answer.
[[gnu::noinline]] static int error_number() {
  asm volatile("");
  return errno;
}
[[gnu::noinline]] static void set_error_number(int number) {
  asm volatile("");
  errno = number;
}

int rubato_checkpoint_slow(void) {
  if (bool (*handler)() = g_handler.load(std::memory_order_acquire)) {
    const int saved = error_number();
    const bool ends = handler();
    set_error_number(saved);
    return ends ? 1 : 0;
  }
  rubato::checkpoint_budget_set(rubato::kCheckpointNever);
  return 0;
}

namespace rubato {

void checkpoint_set_handler(bool (*handler)()) {
  g_handler.store(handler, std::memory_order_release);
}

[[gnu::noinline]] void checkpoint_budget_set(int32_t checkpoints) {
  __atomic_store_n(&rubato_checkpoint_budget, checkpoints, __ATOMIC_RELAXED);
}

[[gnu::noinline]] int32_t* checkpoint_budget_address() { return &rubato_checkpoint_budget; }

void checkpoint_expire(int32_t* budget) { __atomic_store_n(budget, 0, __ATOMIC_RELAXED); }

}  // namespace rubato
