// SPDX-License-Identifier: Apache-2.0
//
// Interrupts by the processor itself (user interrupts; Synergy 5.2.3, uintr): the sender executes
// one instruction, the receiver goes to entry.h's entry, and the kernel takes no part. Threads get
// their roles from the kernel module rubato_uintr (native/uintr), whose device stays open as long
// as the process, for the processor reads its tables.
#pragma once

#include <memory>

#include "base/result.h"
#include "mechanism/preempt/mechanism.h"

namespace rubato {

// Done, or the reason why not: the processor, no module, no right to open its device.
Status uintr_available();

// For the calling thread, which receives and sends from then on; at most 64 threads.
Result<std::unique_ptr<InterruptLine>> open_uintr_line(InterruptTarget& target);

}  // namespace rubato
