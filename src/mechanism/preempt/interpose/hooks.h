// SPDX-License-Identifier: Apache-2.0
//
// The seam between the interposed functions of libc and the runtime. The interposers are a library
// of their own (librubato-interpose.so, or objects linked into a program), which knows the runtime
// by this table only, and does nothing but call libc while no table is attached. The runtime uses
// them through preempt/interposed.h, which checks whether they are there.
#pragma once

#include <stdint.h>

extern "C" {

struct RubatoInterposeHooks {
  // mechanism/preempt/preempt_disable.h
  void (*preempt_disable)();
  // Honours a pending preemption if the code at `caller`, to which the interposed function returns,
  // may be left; otherwise it stays pending. Keeps errno.
  void (*preempt_enable)(const void* caller);
  bool (*yield_for_lock)();
  // True if the caller is code of a request, so that yield_for_lock may let others run.
  bool (*is_request)();
  // Objects have been loaded or unloaded: mechanism/preempt/code_map.h.
  void (*code_changed)();
  // mechanism/preempt/credentials.h
  void (*call_as_thread)(void (*call)(void*), void* argument);
  // How often the caller was interrupted by the runtime's signal: mechanism/preempt/signal.h.
  uint32_t (*interrupts)();
};

// The kind of the calling thread for the interposers. Its TLS block is its thread control block: a
// fiber that has a TLS block of its own is a thread to libc, other fibers share that of the worker
// they run on. Fibers that share a TLS block are not switched inside code that knows nothing of
// them, because that code may keep data by thread; so they open non-preemptible regions, but never
// yield for a lock. The exception: a waiting fiber keeps the TLS block, and yield_for_lock lets the
// thread go on with another one.
enum RubatoInterposeKind {
  RUBATO_INTERPOSE_PLAIN = 0,        // libc is called, nothing else
  RUBATO_INTERPOSE_SHARED = 1,       // fibers of ours run on this thread's TLS block
  RUBATO_INTERPOSE_OWN_TLS = 2,  // this TLS block belongs to one fiber
  RUBATO_INTERPOSE_LENT_TLS = 3  // shared, but a fiber that waits keeps it
};

// `hooks` must stay as long as it is attached; null detaches. With threads that are not plain, it
// must not be detached. Any thread.
void rubato_interpose_attach(const RubatoInterposeHooks* hooks);

// The range of the code that must not be left even if the rest of its object may be.
void rubato_interpose_code(uintptr_t* low, uintptr_t* high);

// The locks that the calling fiber holds, each with its region.
uint32_t rubato_interpose_locks_held(void);

// Has the calling fiber, in its TLS block, ever set an alternate signal stack?
bool rubato_interpose_signal_stack_set(void);

// For the calling thread; from any kind to any other while no lock is held. Without hooks it stays
// plain.
void rubato_interpose_thread(int kind);
}
