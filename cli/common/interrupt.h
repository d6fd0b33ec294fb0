// SPDX-License-Identifier: Apache-2.0
//
// Ctrl-C as a request to stop, for commands that measure for long.
#pragma once

#include <atomic>

namespace rubato::cli {

// True once the user has asked to stop. Any thread.
const std::atomic<bool>& interrupt_flag();
inline bool interrupted() { return interrupt_flag().load(std::memory_order_relaxed); }

// From now on Ctrl-C is such a request; a second one ends the process. Main thread.
void watch_interrupts();

}  // namespace rubato::cli
