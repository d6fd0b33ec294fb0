// SPDX-License-Identifier: Apache-2.0
//
// The descendants of a process: which they are, the CPU time they have used, and their end. The
// process must be a child subreaper (prctl(2)), else those whose parent ended are no longer to be
// found. Reads /proc; any thread of that process, one at a time.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/time.h"

namespace rubato {

// The live descendants of the calling process; of those that come and go meanwhile some.
std::vector<pid_t> descendants();

// CPU time of all descendants, live ones and those that were waited for. In steps of the kernel's
// clock tick, usually 10 ms; a process that ends meanwhile may be counted later.
Nanos cpu_time_of_descendants();

// Sends the signal, one that is to end them, to all of them.
void signal_descendants(int signal);

// Kills all of them, also those that are being started meanwhile, and waits for them.
void kill_descendants();

}  // namespace rubato
