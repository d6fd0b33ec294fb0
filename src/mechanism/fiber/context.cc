// SPDX-License-Identifier: Apache-2.0
#include "mechanism/fiber/context.h"

#include "base/check.h"

namespace rubato {

// The first code of a fresh fiber, in switch_*.S; never called from C++.
extern "C" void rubato_context_entry();

namespace {

constexpr uintptr_t kStackAlignment = 16;

uintptr_t stack_top(void* stack_low, size_t stack_size_bytes) {
  RUBATO_DCHECK(stack_low != nullptr && stack_size_bytes >= kContextStackMin);
  return (reinterpret_cast<uintptr_t>(stack_low) + stack_size_bytes) & ~(kStackAlignment - 1);
}

template <class Pointer>
uint64_t word(Pointer pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

}  // namespace

#if defined(__x86_64__)

void context_make(Context& context, void* stack_low, size_t stack_size_bytes, FiberEntry entry,
                  void* argument) {
  static_assert(offsetof(Context, rsp) == 0 && offsetof(Context, rbx) == 8 &&
                offsetof(Context, r15) == 48 && offsetof(Context, mxcsr) == 56 &&
                offsetof(Context, x87_control_word) == 60);
  // The switch pops the address, which leaves rsp 16-aligned at a zero word, where a debugger that
  // walks frame pointers stops.
  auto* top = reinterpret_cast<uint64_t*>(stack_top(stack_low, stack_size_bytes));
  top[-2] = 0;
  top[-3] = word(&rubato_context_entry);
  context.rsp = word(top - 3);
  context.rbx = word(entry);
  context.rbp = 0;
  context.r12 = word(argument);
  context.r13 = context.r14 = context.r15 = 0;
  asm("stmxcsr %0" : "=m"(context.mxcsr));
  asm("fnstcw %0" : "=m"(context.x87_control_word));
  context.unused = 0;
}

#elif defined(__aarch64__)

void context_make(Context& context, void* stack_low, size_t stack_size_bytes, FiberEntry entry,
                  void* argument) {
  static_assert(offsetof(Context, x) == 0 && offsetof(Context, x29) == 80 &&
                offsetof(Context, sp) == 96 && offsetof(Context, fpcr) == 104 &&
                offsetof(Context, d) == 112);
  context = {};
  context.x[0] = word(entry);
  context.x[1] = word(argument);
  context.x30 = word(&rubato_context_entry);
  context.sp = stack_top(stack_low, stack_size_bytes);
  asm("mrs %0, fpcr" : "=r"(context.fpcr));
}

#endif

}  // namespace rubato
