// SPDX-License-Identifier: Apache-2.0
//
// Interrupts by signal: a thread is interrupted by tgkill, or by its own timer. One handler per
// process, installed while any line is open, finds the target by the kernel's id of the thread it
// runs on: not by thread-local storage, which may belong to a fiber.
//
// The signal is SIGURG, as in other runtimes that preempt: nothing uses it but out-of-band data of
// sockets, and a late signal that finds no handler is ignored. A handler that the program had
// installed before is called for signals that are not the runtime's. The program must not block the
// signal on workers, nor change its handler while a server runs.
//
// The handler runs on the fiber's own stack, with the signal not blocked, and may switch: the
// kernel's frame, full vector state included, stays on that stack, and whichever worker resumes the
// fiber returns through it. System calls are restarted (SA_RESTART) where the kernel can.
#pragma once

#include <memory>

#include "base/result.h"
#include "mechanism/preempt/mechanism.h"

namespace rubato {

// How often the calling fiber, or thread, has been interrupted by the signal. It wraps.
uint32_t interrupts_taken();

// The number of the signal.
int interrupt_signal();

// True in a handler of the program's own on the thread's alternate stack. That stays with the
// thread, whose next signal would overwrite what a switch leaves there. Takes a system call.
bool on_signal_stack();

// For the calling thread; fails when too many threads have one.
Result<std::unique_ptr<InterruptLine>> open_signal_line(InterruptTarget& target);

}  // namespace rubato
