// SPDX-License-Identifier: Apache-2.0
//
// Fiber: a context, its stack, and the other parts of a thread's state that follow it: the
// exception state of the C++ runtime and the sanitizers' bookkeeping. A fiber may be resumed on any
// thread.
//
// Life of a fiber: fiber_start -> fiber_switch to it, back, to it, ... -> the fiber itself calls
// fiber_switch_final -> fiber_start again (reuse), or fiber_finish.
// The entry function calls fiber_entered first and never returns.
//
// Thread safety: none of its own. At any time one thread owns a Fiber: the thread that runs it, or
// the thread that took it from a queue. A fiber must not become visible to other threads before the
// switch away from it is complete: publish it from the fiber that was switched to, not from itself.
// Ownership: the Fiber does not own its stack; the code that took the stack from the StackPool
// gives it back after the final switch.
//
// errno, the signal mask and thread_local variables are not carried along (see context.h).
#pragma once

#include <cstdint>

#include "base/limits.h"
#include "mechanism/fiber/context.h"
#include "mechanism/fiber/stack.h"

namespace rubato {

// The Itanium C++ ABI's __cxa_eh_globals (2.2.2), one per thread: exceptions being handled, and the
// number thrown but not yet caught. The state belongs to the stack that throws, so it moves with
// the fiber: otherwise a fiber that waits inside a catch block would find another fiber's exception
// in `throw;`.
struct ExceptionState {
  void* caught_exceptions = nullptr;
  uint64_t uncaught_exceptions = 0;  // an unsigned int and its padding
};

struct alignas(limits::kCacheLineBytes) Fiber {
  Context context;                  // valid while the fiber is not running
  ExceptionState exceptions;        // valid while the fiber is not running
  Stack* stack = nullptr;           // null for an adopted thread
  void* tsan_fiber = nullptr;       // ThreadSanitizer builds only
  void* asan_fake_stack = nullptr;  // these three: AddressSanitizer builds only
  const void* asan_stack_low = nullptr;
  size_t asan_stack_size_bytes = 0;
};
static_assert(sizeof(Fiber) == sizeof(Context) + limits::kCacheLineBytes);

// Makes `fiber` ready to run entry(argument) on `stack`. Costs two cache lines of writes and two
// words at the top of the stack. Requires that the fiber is not running and holds nothing
// unfinished: it is new, or has made its final switch.
void fiber_start(Fiber& fiber, Stack* stack, FiberEntry entry, void* argument);

// The first call in every entry function. `self` is the fiber that was started.
void fiber_entered(Fiber& self);

// Leaves `from`, which must be the running fiber, for `to`. Returns when a later switch goes to
// `from`, perhaps on another thread. Requires from != to.
void fiber_switch(Fiber& from, Fiber& to);

// The same, but `from` will never be resumed. `to` may give the stack of `from` back or start
// `from` anew. The frames on that stack are not unwound: destructors of objects alive there do not
// run.
[[noreturn]] void fiber_switch_final(Fiber& from, Fiber& to);

// The same two for fibers that have thread-local storage of their own, where the caller has already
// become `to` (mechanism/preempt/tls_block.h): the exception state is part of that. Not in builds
// with a sanitizer.
void fiber_switch_as_another(Fiber& from, Fiber& to);
[[noreturn]] void fiber_switch_final_as_another(Fiber& from, Fiber& to);

// For code that changes the thread-local storage between fibers that share some: the first before
// the change, if the storage of `from` stays behind for other fibers; the second after it, if `to`
// shares the storage that it finds.
void fiber_keep_exceptions(Fiber& from);
void fiber_bring_exceptions(const Fiber& to);

// Makes `fiber` stand for the calling thread on its own stack, so that it can be switched from and
// later back to. Call it once on each thread that runs fibers.
void fiber_adopt_thread(Fiber& fiber);

// Releases what fiber_start took (sanitizer builds only). Requires that the fiber is not running;
// an adopted thread needs no call.
void fiber_finish(Fiber& fiber);

}  // namespace rubato
