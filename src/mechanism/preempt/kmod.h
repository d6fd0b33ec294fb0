// SPDX-License-Identifier: Apache-2.0
//
// Interrupts by the kernel module rubato_ipi (native/kmod; Synergy 5.2.3, kmod_ipi): one ioctl
// interrupts a thread, and the module sends the thread to entry.h's entry without a signal frame.
// System calls that the module interrupts are called again, or fail with EINTR, as with a signal
// whose handler has SA_RESTART; the module does not wake a sleeping thread: a thread that blocks is
// interrupted when it is back in user mode.
#pragma once

#include <memory>

#include "base/result.h"
#include "mechanism/preempt/mechanism.h"

namespace rubato {

// Done, or the reason why not: no module, no right to open its device, another version.
Status kmod_available();

// For the calling thread. Takes a file descriptor.
Result<std::unique_ptr<InterruptLine>> open_kmod_line(InterruptTarget& target);

}  // namespace rubato
