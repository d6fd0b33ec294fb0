// SPDX-License-Identifier: Apache-2.0
//
// The checkpoint: the place where a running request lets itself be preempted (Synergy 5.1.3, SBB
// 4.3). C and C++. May be called on every thread; off a worker it does nothing. May switch: the
// code after it can run on another thread, so nothing that belongs to a thread (its id, the address
// of a thread_local) is kept across it, and no lock is held. Owns nothing.
//
// Not taken, the inline form is one decrement of a per-thread word and a branch that is predicted
// not taken, so it may stand in the inner loop of anything that can take more than some 100 us.
//
// The word, `rubato_checkpoint_budget`, is an initial-exec thread-local: it is reached through the
// block of thread-local storage that the loader lays out at program start. Link against librubato,
// shared or static; do not dlopen() it late, the loader may then refuse ("cannot allocate memory in
// static TLS block"). In a plug-in that is itself dlopened late call rubato_checkpoint().
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// The checkpoint as an ordinary call. Not zero: nobody wants the reply any more (the client is
// gone, the request's deadline has passed, the server has stopped waiting), so the request is to
// end as soon as it can; what it has put into the reply is dropped. Zero in a non-preemptible
// region without preemption.
int rubato_checkpoint(void);

// What a checkpoint does when its budget is used up; returns on the same fiber, perhaps much later
// and on another thread. Not for direct use.
int rubato_checkpoint_slow(void);

#if defined(__x86_64__)
// The same, called by the checkpoints that librubato-pass.so compiles in (docs/PASS.md); keeps the
// registers that Clang's preserve_all keeps. Not to be called from C.
void rubato_checkpoint_enter(void);
#endif

// The decrement is one instruction, so that the compiler cannot keep the address of a thread's word
// across a call that may resume on another thread.
#if defined(__x86_64__)
__attribute__((always_inline)) static inline int rubato_checkpoint_inline(void) {
  bool taken;
  __asm__ volatile(
      "movq rubato_checkpoint_budget@gottpoff(%%rip), %%rax\n\t"
      "decl %%fs:(%%rax)"
      : "=@ccs"(taken)
      :
      : "rax");
  return __builtin_expect(taken, 0) ? rubato_checkpoint_slow() : 0;
}
#else
__attribute__((always_inline)) static inline int rubato_checkpoint_inline(void) {
  return rubato_checkpoint();
}
#endif

#ifdef __cplusplus
}  // extern "C"
#endif

// Marks a function in which librubato-pass.so puts no checkpoint. It is not inlined either, as its
// code would otherwise be taken for its caller's. What it calls has checkpoints of its own; to hold
// preemption off there too, use rubato::NoPreempt.
#if defined(__clang__)
#define RUBATO_NO_PREEMPT __attribute__((noinline, annotate("rubato_no_preempt")))
#else
#define RUBATO_NO_PREEMPT
#endif
