// SPDX-License-Identifier: Apache-2.0
#include "mechanism/preempt/section.h"

#include <atomic>

#include "base/check.h"

thread_local constinit uint32_t rubato_section_word = rubato::kNothingPending;

namespace {
// Written once at start and read by threads that are made later, or long after: release and acquire
// cost nothing here. A signal handler reads them too; they are lock free.
std::atomic<void (*)()> g_handler{nullptr};
std::atomic<rubato::CodeIsUnsafe> g_code_is_unsafe{nullptr};
std::atomic<bool (*)()> g_yield{nullptr};
}  // namespace

// Never inlined, so that the thread's word is looked up afresh at every call.
#if defined(__x86_64__)
[[gnu::noinline]] void rubato_section_enter(void) { rubato::section_enter(); }
[[gnu::noinline]] void rubato_section_leave_quietly(void) { rubato::section_leave_quietly(); }
#else
[[gnu::noinline]] void rubato_section_enter(void) {
  asm volatile("");
  __atomic_add_fetch(&rubato_section_word, 1, __ATOMIC_RELAXED);
}
[[gnu::noinline]] bool rubato::section_close() {
  asm volatile("");
  return __atomic_sub_fetch(&rubato_section_word, 1, __ATOMIC_RELAXED) == 0;
}
[[gnu::noinline]] void rubato_section_leave_quietly(void) {
  asm volatile("");
  __atomic_sub_fetch(&rubato_section_word, 1, __ATOMIC_RELAXED);
}
#endif

[[gnu::noinline]] void rubato_section_leave(void) {
  RUBATO_DCHECK(rubato::in_section());
  rubato::section_leave();
}

void rubato_section_left_pending(void) {
  rubato::section_clear_pending();
  if (void (*handler)() = g_handler.load(std::memory_order_acquire)) handler();
}

namespace rubato {

[[gnu::noinline]] uint32_t section_depth() {
  asm volatile("");
  return __atomic_load_n(&rubato_section_word, __ATOMIC_RELAXED) & ~kNothingPending;
}

[[gnu::noinline]] void section_set_pending() {
  asm volatile("");
  __atomic_and_fetch(&rubato_section_word, ~kNothingPending, __ATOMIC_RELAXED);
}

[[gnu::noinline]] void section_clear_pending() {
  asm volatile("");
  __atomic_or_fetch(&rubato_section_word, kNothingPending, __ATOMIC_RELAXED);
}

[[gnu::noinline]] uint32_t section_exchange_depth(uint32_t depth) {
  asm volatile("");
  RUBATO_DCHECK((depth & kNothingPending) == 0);
  uint32_t seen = __atomic_load_n(&rubato_section_word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&rubato_section_word, &seen,
                                      (seen & kNothingPending) | depth, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
  return seen & ~kNothingPending;
}

void section_set_handler(void (*handler)()) {
  g_handler.store(handler, std::memory_order_release);
}

void set_code_is_unsafe(CodeIsUnsafe predicate) {
  g_code_is_unsafe.store(predicate, std::memory_order_release);
}

bool code_is_unsafe(uintptr_t pc) {
  const CodeIsUnsafe predicate = g_code_is_unsafe.load(std::memory_order_acquire);
  return predicate != nullptr && predicate(pc);
}

void set_yield_for_lock(bool (*yield)()) { g_yield.store(yield, std::memory_order_release); }

bool yield_for_lock() {
  bool (*yield)() = g_yield.load(std::memory_order_acquire);
  return yield != nullptr && yield();
}

}  // namespace rubato
