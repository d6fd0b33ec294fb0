// SPDX-License-Identifier: Apache-2.0
//
// The runtime's side of the interposed functions of libc (preempt/interpose). They come with the
// program, linked in or preloaded, or they are not there: then everything here says so, and locks
// block their worker as they always did. Any thread.
#pragma once

#include "base/result.h"

namespace rubato {

// Connects the interposers with non-preemptible regions, yielding and the code map. Fails if the
// program has none, or has them where they are not asked first, and then nothing is connected. To
// be called before threads are marked, again at will.
Status interposers_attach();
bool interposers_attached();

enum class ThreadKind {
  kPlain,           // runs no fibers
  kSharesTls,  // fibers run on it, by its own thread control block
  kOwnsTls,      // its thread control block belongs to one fiber
  kBorrowsTls,  // fibers share its thread control block, but one that waits keeps it
};

// For the calling thread, while it holds no lock. Does nothing if the interposers are not attached.
void interposers_mark_thread(ThreadKind kind);

}  // namespace rubato
