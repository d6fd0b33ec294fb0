// SPDX-License-Identifier: Apache-2.0
//
// The checkpoint: the place where a running request lets itself be preempted (Synergy 5.1.3, SBB
// 4.3). C and C++. A checkpoint may be called on every thread; outside a worker it does nothing. It
// may switch: the code after it can run on another thread, so the caller holds no lock and keeps
// nothing that belongs to a thread (its id, the address of a thread_local) across it.
//
// While the budget lasts, the inline form is one decrement of a per-thread word and a branch that
// is predicted not taken. So a checkpoint may stand in the inner loop of any code that can run for
// more than some 100 us.
//
// The word, `rubato_checkpoint_budget`, is an initial-exec thread-local: it is reached through the
// block of thread-local storage that the loader lays out at program start. Link against librubato,
// shared or static; do not dlopen() it late, since the loader may then refuse ("cannot allocate
// memory in static TLS block"). A plug-in that is itself dlopened late calls rubato_checkpoint().
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// The checkpoint as an ordinary call. It returns nonzero when the reply is no longer wanted (the
// client is gone, the request's deadline has passed, or the server has stopped waiting): the
// request should then end as soon as it can, and its reply is dropped. In a non-preemptible region
// the checkpoint returns zero and does not preempt.
int rubato_checkpoint(void);

// The slow path of a checkpoint whose budget is used up. It returns on the same fiber, perhaps much
// later and on another thread; its value is that of rubato_checkpoint. Not for direct use.
int rubato_checkpoint_slow(void);

#if defined(__x86_64__)
// The same slow path for the checkpoints that librubato-pass.so compiles in (docs/PASS.md). It
// keeps the registers that Clang's preserve_all keeps and must not be called from C.
void rubato_checkpoint_enter(void);
#endif

// The checkpoint, inline; it returns what rubato_checkpoint returns. The decrement is one
// instruction, so that the compiler cannot keep the address of a thread's word across a call that
// may resume on another thread.
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

// Marks a function in which librubato-pass.so puts no checkpoint. The function is not inlined
// either, since its code would otherwise be taken for its caller's. The functions that it calls
// have checkpoints of their own; to hold off preemption there too, use rubato::NoPreempt.
#if defined(__clang__)
#define RUBATO_NO_PREEMPT __attribute__((noinline, annotate("rubato_no_preempt")))
#else
#define RUBATO_NO_PREEMPT
#endif
