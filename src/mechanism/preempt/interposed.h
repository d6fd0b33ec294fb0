// SPDX-License-Identifier: Apache-2.0
//
// The runtime's side of the interposed functions of libc (preempt/interpose). They are linked into
// the program or preloaded; without them the functions here report that, and locks block their
// worker as usual. Any thread.
#pragma once

#include "base/result.h"

namespace rubato {

// Connects the interposers with non-preemptible regions, yielding and the code map. Fails, and
// connects nothing, if the program has no interposers or another object comes before them. Call it
// before threads are marked; it may be called again.
Status interposers_attach();
bool interposers_attached();

// The locks that the calling fiber has taken by the interposers; each is an open region.
uint32_t interposed_locks_held();

// Has the calling fiber, which has a TLS block of its own, ever set an alternate signal stack?
bool interposed_signal_stack_set();

enum class ThreadKind {
  kPlain,           // runs no fibers
  kSharesTls,  // fibers run on it, by its own thread control block
  kOwnsTls,      // its thread control block belongs to one fiber
  kBorrowsTls,  // fibers share its thread control block, but one that waits keeps it
};

// For the calling thread, while it holds no lock. Does nothing if the interposers are not attached.
void interposers_mark_thread(ThreadKind kind);

}  // namespace rubato
