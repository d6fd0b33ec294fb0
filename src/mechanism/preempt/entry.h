// SPDX-License-Identifier: Apache-2.0
//
// The entry into C++ for a thread that was interrupted without a signal, at any instruction. The
// sender builds the frame of kmod_abi.h on the thread's stack and sends the thread to
// interrupt_entry(). The cookie is the InterruptTarget, which is called as mechanism.h says: no
// look-up, no system call. All of the processor's state is kept on the thread's own stack
// meanwhile.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "mechanism/preempt/mechanism.h"

namespace rubato {

// Done, or the reason why this processor has no such entry. Call it before the first interrupt: it
// also finds out how many bytes of state there are to save.
Status prepare_interrupt_entry();

// The address to send the thread to.
uintptr_t interrupt_entry();

inline uint64_t interrupt_cookie(InterruptTarget& target) {
  return reinterpret_cast<uintptr_t>(&target);
}

}  // namespace rubato
