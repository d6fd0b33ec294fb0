// SPDX-License-Identifier: Apache-2.0
#include "mechanism/fiber/fiber.h"

#include <cxxabi.h>
#include <pthread.h>

#include <cstring>

#include "base/check.h"
#include "mechanism/fiber/sanitizer.h"

namespace rubato {
namespace {

// The thread's __cxa_eh_globals, found once: the runtime's own getter is a call into a shared
// library, and is declared `const`, so that compilers may carry its answer across a switch to
// another thread.
[[gnu::tls_model("initial-exec")]] thread_local constinit ExceptionState* t_exceptions = nullptr;

ExceptionState& thread_exceptions() {
  if (t_exceptions == nullptr) {
    t_exceptions = reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
  }
  return *t_exceptions;
}

// The exchange happens before the switch, while `from` is still on this thread: afterwards it may
// be on another one, where no address looked up earlier is valid.
inline void exchange_exceptions(Fiber& from, const Fiber& to) {
  ExceptionState& current = thread_exceptions();
  from.exceptions = current;
  current = to.exceptions;
}

#if defined(RUBATO_ASAN)
void record_thread_stack(Fiber& fiber) {
  pthread_attr_t attributes;
  void* low = nullptr;
  RUBATO_CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
  RUBATO_CHECK(pthread_attr_getstack(&attributes, &low, &fiber.asan_stack_size_bytes) == 0);
  RUBATO_CHECK(pthread_attr_destroy(&attributes) == 0);
  fiber.asan_stack_low = low;
}
#else
void record_thread_stack(Fiber&) {}
#endif

}  // namespace

void fiber_start(Fiber& fiber, Stack* stack, FiberEntry entry, void* argument) {
  RUBATO_DCHECK(stack != nullptr);
  sanitizer::forget_stack(stack->low, stack->size_bytes);
  context_make(fiber.context, stack->low, stack->size_bytes, entry, argument);
  fiber.exceptions = {};
  fiber.stack = stack;
  // A fresh TSan fiber each time: the shadow call stack of a fiber that never returned keeps its
  // frames.
  fiber_finish(fiber);
  fiber.tsan_fiber = sanitizer::create_fiber();
  fiber.asan_fake_stack = nullptr;
  fiber.asan_stack_low = stack->low;
  fiber.asan_stack_size_bytes = stack->size_bytes;
}

void fiber_entered(Fiber&) { sanitizer::arrive_on_stack(nullptr); }

[[gnu::noinline]] void fiber_switch(Fiber& from, Fiber& to) {
  RUBATO_DCHECK(&from != &to);
  exchange_exceptions(from, to);
  sanitizer::leave_stack(&from.asan_fake_stack, to.asan_stack_low, to.asan_stack_size_bytes);
  sanitizer::switch_to_fiber(to.tsan_fiber);
  rubato_context_switch(&from.context, &to.context);
  sanitizer::arrive_on_stack(from.asan_fake_stack);
}

[[gnu::noinline]] void fiber_switch_final(Fiber& from, Fiber& to) {
  RUBATO_DCHECK(&from != &to);
  exchange_exceptions(from, to);
  sanitizer::leave_stack(nullptr, to.asan_stack_low, to.asan_stack_size_bytes);
  sanitizer::switch_to_fiber(to.tsan_fiber);
  rubato_context_switch(&from.context, &to.context);
  check_failed(__FILE__, __LINE__, "a fiber that had ended was resumed");
}

[[gnu::noinline]] void fiber_switch_as_another(Fiber& from, Fiber& to) {
  RUBATO_DCHECK(&from != &to);
  rubato_context_switch(&from.context, &to.context);
}

[[gnu::noinline]] void fiber_switch_final_as_another(Fiber& from, Fiber& to) {
  RUBATO_DCHECK(&from != &to);
  rubato_context_switch(&from.context, &to.context);
  check_failed(__FILE__, __LINE__, "a fiber that had ended was resumed");
}

[[gnu::noinline]] void fiber_keep_exceptions(Fiber& from) {
  asm volatile("");
  from.exceptions = thread_exceptions();
}

[[gnu::noinline]] void fiber_bring_exceptions(const Fiber& to) {
  asm volatile("");
  thread_exceptions() = to.exceptions;
}

void fiber_adopt_thread(Fiber& fiber) {
  fiber = {};
  fiber.tsan_fiber = sanitizer::current_fiber();
  record_thread_stack(fiber);
}

void fiber_finish(Fiber& fiber) {
  if (fiber.tsan_fiber != nullptr) sanitizer::destroy_fiber(fiber.tsan_fiber);
  fiber.tsan_fiber = nullptr;
}

}  // namespace rubato
