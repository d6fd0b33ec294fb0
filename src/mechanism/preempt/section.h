// SPDX-License-Identifier: Apache-2.0
//
// Sections: stretches of code in which the running fiber must not be switched away from, because
// it holds a lock or is half-way through something that others would trip over. They nest. A
// preemption that falls due inside one is kept (section_set_pending) and honoured when the
// outermost is left.
//
// May be called on every thread, by code of ours and by the interposed functions of libc; off a
// worker it counts and nothing else. No call here allocates, locks or touches errno, save that
// section_leave of the outermost section and yield_for_lock may switch: the code after them can run
// on another worker.
//
// The count is one word of thread-local storage. In the asynchronous mechanisms every fiber has
// thread-local storage of its own (mechanism/preempt/tls_block.h), so it follows the fiber; in the
// others a fiber that is inside a section stays on its thread, and yield_for_lock carries the count
// over.
//
// The word is the depth, with the highest bit set while *nothing* is pending: so leaving is one
// decrement, and its result is zero exactly if this was the outermost section and something waits.
// A signal handler on the same thread may change the highest bit between any two instructions;
// every change is a single instruction, so none is lost.
#pragma once

#include <cstdint>

extern "C" {
// For C, assembly and code without this header.
void rubato_section_enter(void);
void rubato_section_leave(void);
// The same, but nothing is honoured here: for a section that code was called in which must not be
// left half-way itself. What is pending waits for the end of the next section, or the next try.
void rubato_section_leave_quietly(void);

// Not for direct use.
extern thread_local uint32_t rubato_section_word __attribute__((tls_model("initial-exec")));
void rubato_section_left_pending(void);
}

namespace rubato {

inline constexpr uint32_t kNothingPending = 0x8000'0000u;

#if defined(__x86_64__)
// One instruction each, so that no compiler keeps the address of a thread's word across a switch.
[[gnu::always_inline]] inline void section_enter() {
  asm volatile(
      "movq rubato_section_word@gottpoff(%%rip), %%rax\n\t"
      "incl %%fs:(%%rax)"
      :
      :
      : "rax", "cc", "memory");
}

// Half of section_leave. True: that was the outermost, and something is pending.
[[gnu::always_inline]] inline bool section_close() {
  bool wanted;
  asm volatile(
      "movq rubato_section_word@gottpoff(%%rip), %%rax\n\t"
      "decl %%fs:(%%rax)"
      : "=@ccz"(wanted)
      :
      : "rax", "memory");
  return __builtin_expect(wanted, 0);
}

[[gnu::always_inline]] inline void section_leave_quietly() {
  asm volatile(
      "movq rubato_section_word@gottpoff(%%rip), %%rax\n\t"
      "decl %%fs:(%%rax)"
      :
      :
      : "rax", "cc", "memory");
}
#else
bool section_close();
inline void section_enter() { rubato_section_enter(); }
inline void section_leave_quietly() { rubato_section_leave_quietly(); }
#endif

[[gnu::always_inline]] inline void section_leave() {
  if (section_close()) rubato_section_left_pending();
}

// Open sections of the running fiber.
uint32_t section_depth();
inline bool in_section() { return section_depth() > 0; }

class Section {
 public:
  Section() { section_enter(); }
  ~Section() { section_leave(); }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;
};

// Something is to be done when the outermost section is left; by a signal handler on this very
// thread, or by the runtime. Outside of sections it waits for the end of the next one.
void section_set_pending();
void section_clear_pending();

// What section_leave calls then, on every thread. Set before the first request runs.
void section_set_handler(void (*handler)());

// Sets the depth, for who carries a section over to another thread; returns what it was. Leaves
// alone what is pending.
uint32_t section_exchange_depth(uint32_t depth);

// Must the code at `pc` not be left half-way, because it is the allocator's, libc's, the loader's,
// the unwinder's? Asked in a signal handler. Until a predicate is set, no code is unsafe.
using CodeIsUnsafe = bool (*)(uintptr_t pc);
void set_code_is_unsafe(CodeIsUnsafe predicate);
bool code_is_unsafe(uintptr_t pc);

// The lock that the caller wants is taken: gives the worker away. The running request goes back to
// a queue, others run, and the call returns true when it is this one's turn again, perhaps on
// another worker; then try again. False: nothing was done, for the caller is no request of ours, or
// the runtime is at work itself, or there is no fiber to go on with; block then. Sections of the
// caller stay open meanwhile.
bool yield_for_lock();

// What yield_for_lock calls. Set before the first request runs.
void set_yield_for_lock(bool (*yield)());

}  // namespace rubato
