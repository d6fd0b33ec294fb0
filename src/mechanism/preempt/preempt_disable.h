// SPDX-License-Identifier: Apache-2.0
//
// Non-preemptible regions: stretches of code in which the running fiber must not be switched away
// from, because it holds a lock or is half-way through a change that other fibers must not see.
// They nest. A preemption that falls due inside one is kept (set_preemption_pending) and honoured
// when the outermost is left.
//
// The functions may be called on every thread, by the runtime and by the interposed functions of
// libc; on threads that are not workers they only count. No call here allocates, locks or touches
// errno, save that preempt_enable of the outermost region and yield_for_lock may switch: the code
// after them can run on another worker.
//
// The count is one word of thread-local storage. In the asynchronous mechanisms every fiber has
// thread-local storage of its own (mechanism/preempt/tls_block.h), so it follows the fiber; in the
// others a fiber that is inside a non-preemptible region stays on its thread, and yield_for_lock
// carries the count over.
//
// The word is the depth, with the highest bit set while *nothing* is pending: so leaving is one
// decrement, and its result is zero exactly if this was the outermost region and something waits.
// A signal handler on the same thread may change the highest bit between any two instructions;
// every change is a single instruction, or starts again behind the handler, so none is lost.
#pragma once

#include <cstdint>

extern "C" {
// For C, assembly and code without this header.
void rubato_preempt_count_inc(void);
void rubato_preempt_count_dec(void);
// The same, but a pending preemption is not honoured here: for a non-preemptible region around
// which the calling code must not be left half-way itself. A pending preemption waits for the end
// of the next region, or the next try.
void rubato_preempt_count_dec_no_resched(void);

// Not for direct use.
extern thread_local uint32_t rubato_preempt_count __attribute__((tls_model("initial-exec")));
void rubato_preempt_schedule(void);
}

namespace rubato {

inline constexpr uint32_t kNothingPending = 0x8000'0000u;

#if defined(__x86_64__)
// One instruction each, so that no compiler keeps the address of a thread's word across a switch.
[[gnu::always_inline]] inline void preempt_disable() {
  asm volatile(
      "movq rubato_preempt_count@gottpoff(%%rip), %%rax\n\t"
      "incl %%fs:(%%rax)"
      :
      :
      : "rax", "cc", "memory");
}

// Half of preempt_enable. True: that was the outermost, and something is pending.
[[gnu::always_inline]] inline bool preempt_count_dec_and_test() {
  bool wanted;
  asm volatile(
      "movq rubato_preempt_count@gottpoff(%%rip), %%rax\n\t"
      "decl %%fs:(%%rax)"
      : "=@ccz"(wanted)
      :
      : "rax", "memory");
  return __builtin_expect(wanted, 0);
}

[[gnu::always_inline]] inline void preempt_enable_no_resched() {
  asm volatile(
      "movq rubato_preempt_count@gottpoff(%%rip), %%rax\n\t"
      "decl %%fs:(%%rax)"
      :
      :
      : "rax", "cc", "memory");
}
#elif defined(__aarch64__)
// Adds to the word, and returns it. Inline, as functions that must not be left call it; in one
// piece, for the same reason as above. Code that can be interrupted in it takes its thread-local
// storage along, so that the address stays right; the exclusive store fails after a handler.
template <int32_t kChange>
[[gnu::always_inline]] inline uint32_t change_preempt_count() {
  uint64_t address;
  uint64_t offset;
  uint32_t count;
  asm volatile(
      "adrp %0, :gottprel:rubato_preempt_count\n\t"
      "ldr %0, [%0, #:gottprel_lo12:rubato_preempt_count]\n\t"
      "mrs %1, tpidr_el0\n\t"
      "add %0, %0, %1\n"
      "1:\n\t"
      "ldxr %w2, [%0]\n\t"
      "add %w2, %w2, %w3\n\t"
      "stxr %w1, %w2, [%0]\n\t"
      "cbnz %w1, 1b"
      : "=&r"(address), "=&r"(offset), "=&r"(count)
      : "r"(kChange)
      : "memory");
  return count;
}
[[gnu::always_inline]] inline void preempt_disable() { change_preempt_count<1>(); }
[[gnu::always_inline]] inline bool preempt_count_dec_and_test() {
  return __builtin_expect(change_preempt_count<-1>() == 0, 0);
}
[[gnu::always_inline]] inline void preempt_enable_no_resched() { change_preempt_count<-1>(); }
#endif

[[gnu::always_inline]] inline void preempt_enable() {
  if (preempt_count_dec_and_test()) rubato_preempt_schedule();
}

// Open non-preemptible regions of the running fiber.
uint32_t preempt_disable_depth();
inline bool preemption_disabled() { return preempt_disable_depth() > 0; }

class PreemptDisableGuard {
 public:
  PreemptDisableGuard() { preempt_disable(); }
  ~PreemptDisableGuard() { preempt_enable(); }
  PreemptDisableGuard(const PreemptDisableGuard&) = delete;
  PreemptDisableGuard& operator=(const PreemptDisableGuard&) = delete;
};

// Marks a preemption as pending until the outermost region is left; called by a signal handler on
// this very thread, or by the runtime. Outside of non-preemptible regions the preemption waits for
// the end of the next one.
void set_preemption_pending();
void clear_preemption_pending();

// Sets the function that preempt_enable then calls, on every thread. Set it before the first
// request runs.
void set_pending_preemption_handler(void (*handler)());

// Sets the depth, for code that carries a non-preemptible region over to another thread; returns
// the depth before. A pending preemption stays pending.
uint32_t exchange_preempt_depth(uint32_t depth);

// True if the code at `pc` must not be left half-way, because it belongs to the allocator, libc,
// the loader or the unwinder. Called in a signal handler. Until a predicate is set, no code is
// unsafe.
using AsyncSignalUnsafe = bool (*)(uintptr_t pc);
void set_async_signal_unsafe_predicate(AsyncSignalUnsafe predicate);
bool is_async_signal_unsafe(uintptr_t pc);

// Gives the worker away because the lock that the caller wants is taken. The running request goes
// back to a queue, other requests run, and the call returns true when the request has its turn
// again, perhaps on another worker; the caller then tries again. False: nothing was done, because
// the caller is no request, or the runtime itself is at work, or there is no fiber to go on with;
// the caller then blocks. Non-preemptible regions of the caller stay open meanwhile.
bool yield_for_lock();

// False: the caller is no request, or the runtime itself is at work, so that waiting is its own
// affair.
bool may_yield_for_lock();

// Sets the functions that the two call; a null `may` stands for "always". Set them before the first
// request runs.
void set_yield_for_lock(bool (*yield)(), bool (*may)() = nullptr);

}  // namespace rubato
