// SPDX-License-Identifier: Apache-2.0
//
// Context: the machine state one fiber leaves behind while another one runs, and the switch between
// two of them. It is the bottom of the fiber code: no stacks, no sanitizers, no exceptions; callers
// other than fiber.h and the benchmarks want fiber.h.
//
// A Context saves only what the platform's calling convention preserves across a call: the
// callee-saved registers, the stack pointer, and the *control* part of the floating-point state
// (rounding mode, exception masks), which both the System V ABI (3.2.1) and AAPCS64 (6.1.2)
// preserve. Flags of floating-point exceptions are not preserved by a call; on x86-64 they share
// MXCSR with the control bits and so travel along, on AArch64 they stay in FPSR and are not
// touched. Signal masks, errno and thread-local storage belong to the thread and are not saved.
//
// Thread safety: a Context belongs to the thread that may run the fiber next. It may be loaded on
// another thread than the one that saved it if the hand-over between them synchronises (a queue
// does).
// Code that stays on the stack across a switch must not keep the address of a thread_local, because
// it may continue on another thread. Compilers do cache such addresses, and the results of
// pthread_self() and __errno_location(), which glibc declares `const`: read all these in a function
// that is not inlined and does not switch.
//
// Ownership: the Context's owner keeps both it and the stack alive until the fiber is done.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/limits.h"

namespace rubato {

#if defined(__x86_64__)

// The layout is known to switch_x86_64.S. One cache line: a switch touches this line, the line at
// the top of the stack, and nothing else.
struct alignas(limits::kCacheLineBytes) Context {
  uint64_t rsp;  // points at the address to continue from
  uint64_t rbx;
  uint64_t rbp;
  uint64_t r12;
  uint64_t r13;
  uint64_t r14;
  uint64_t r15;
  uint32_t mxcsr;
  uint16_t x87_control_word;
  uint16_t unused;
};
inline constexpr size_t kContextLines = 1;
// Where the stack of a suspended fiber ends.
inline const void* stack_pointer(const Context& context) {
  return reinterpret_cast<const void*>(context.rsp);
}

#elif defined(__aarch64__)

// The layout is known to switch_aarch64.S. Three cache lines: AAPCS64 keeps twice as many
// registers as x86-64, d8-d15 among them.
struct alignas(limits::kCacheLineBytes) Context {
  uint64_t x[10];  // x19 .. x28
  uint64_t x29;    // frame pointer
  uint64_t x30;    // the address to continue from
  uint64_t sp;
  uint64_t fpcr;
  uint64_t d[8];  // low halves of v8 .. v15
};
inline constexpr size_t kContextLines = 3;
inline const void* stack_pointer(const Context& context) {
  return reinterpret_cast<const void*>(context.sp);
}

#else
#error "no context switch for this processor: add switch_<processor>.S and its Context"
#endif

static_assert(sizeof(Context) == kContextLines * limits::kCacheLineBytes);

// The function that a fiber runs. It must never return: it ends by switching away for the last
// time.
using FiberEntry = void (*)(void* argument);

// Prepares `context` so that the first switch to it calls entry(argument) on the given stack, with
// the caller's present floating-point control words. An exception that leaves `entry` finds the end
// of the stack and terminates the process; a return from it traps.
// Requires stack_size_bytes >= kContextStackMin. Writes two words at the top of the stack.
void context_make(Context& context, void* stack_low, size_t stack_size_bytes, FiberEntry entry,
                  void* argument);

inline constexpr size_t kContextStackMin = 1024;

// Saves the caller's state in *from and continues from the state in *to. Returns when a later
// switch goes to *from, perhaps on another thread. Not preemptible: a signal handler that
// interrupts it must not switch. Requires from != to.
extern "C" void rubato_context_switch(Context* from, const Context* to);

}  // namespace rubato
