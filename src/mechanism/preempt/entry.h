// SPDX-License-Identifier: Apache-2.0
//
// The way into C++ for a thread that was interrupted without a signal, at any instruction, by any
// sender that builds the frame of kmod_abi.h on its stack and sends it to interrupt_entry(). The
// cookie is the InterruptTarget, which is called as mechanism.h says: no look-up, no system call.
// All of the processor's state is kept on the thread's own stack meanwhile.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "mechanism/preempt/mechanism.h"

namespace rubato {

// Done, or why this processor has no such entry. Before the first interrupt: it also learns how
// much there is to save.
Status prepare_interrupt_entry();

// Where to send the thread.
uintptr_t interrupt_entry();

inline uint64_t interrupt_cookie(InterruptTarget& target) {
  return reinterpret_cast<uintptr_t>(&target);
}

}  // namespace rubato
