// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/preempt_disable.h"

#include <atomic>

#include "base/check.h"

thread_local constinit uint32_t rubato_preempt_count = rubato::kNothingPending;

namespace {
// Written once at start and read by threads that are made later, or long after: release and acquire
// cost nothing here. A signal handler reads them too; they are lock free.
std::atomic<void (*)()> g_handler{nullptr};
std::atomic<rubato::AsyncSignalUnsafe> g_code_is_unsafe{nullptr};
std::atomic<bool (*)()> g_yield{nullptr};
std::atomic<bool (*)()> g_may_yield{nullptr};
}  // namespace

// Never inlined, so that the thread's word is looked up afresh at every call.
[[gnu::noinline]] void rubato_preempt_count_inc(void) { rubato::preempt_disable(); }
[[gnu::noinline]] void rubato_preempt_count_dec_no_resched(void) {
  rubato::preempt_enable_no_resched();
}

[[gnu::noinline]] void rubato_preempt_count_dec(void) {
  RUBATO_DCHECK(rubato::preemption_disabled());
  rubato::preempt_enable();
}

void rubato_preempt_schedule(void) {
  rubato::clear_preemption_pending();
  if (void (*handler)() = g_handler.load(std::memory_order_acquire)) handler();
}

namespace rubato {

[[gnu::noinline]] uint32_t preempt_disable_depth() {
  asm volatile("");
  return __atomic_load_n(&rubato_preempt_count, __ATOMIC_RELAXED) & ~kNothingPending;
}

[[gnu::noinline]] void set_preemption_pending() {
  asm volatile("");
  __atomic_and_fetch(&rubato_preempt_count, ~kNothingPending, __ATOMIC_RELAXED);
}

[[gnu::noinline]] void clear_preemption_pending() {
  asm volatile("");
  __atomic_or_fetch(&rubato_preempt_count, kNothingPending, __ATOMIC_RELAXED);
}

[[gnu::noinline]] uint32_t exchange_preempt_depth(uint32_t depth) {
  asm volatile("");
  RUBATO_DCHECK((depth & kNothingPending) == 0);
  uint32_t seen = __atomic_load_n(&rubato_preempt_count, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&rubato_preempt_count, &seen,
                                      (seen & kNothingPending) | depth, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
  return seen & ~kNothingPending;
}

void set_pending_preemption_handler(void (*handler)()) {
  g_handler.store(handler, std::memory_order_release);
}

void set_async_signal_unsafe_predicate(AsyncSignalUnsafe predicate) {
  g_code_is_unsafe.store(predicate, std::memory_order_release);
}

bool is_async_signal_unsafe(uintptr_t pc) {
  const AsyncSignalUnsafe predicate = g_code_is_unsafe.load(std::memory_order_acquire);
  return predicate != nullptr && predicate(pc);
}

void set_yield_for_lock(bool (*yield)(), bool (*may)()) {
  g_may_yield.store(may, std::memory_order_release);
  g_yield.store(yield, std::memory_order_release);
}

bool may_yield_for_lock() {
  bool (*may)() = g_may_yield.load(std::memory_order_acquire);
  return may == nullptr || may();
}

bool yield_for_lock() {
  bool (*yield)() = g_yield.load(std::memory_order_acquire);
  return yield != nullptr && yield();
}

}  // namespace rubato
