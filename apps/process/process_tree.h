// SPDX-License-Identifier: Apache-2.0
//
// The descendants of a process: their ids, the CPU time they have used, and their end. The process
// must be a child subreaper (prctl(2)), else a descendant whose parent ended is not found any more.
// Reads /proc; any thread of that process, one at a time.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/time.h"

namespace rubato {

// The live descendants of the calling process; a process that starts or ends meanwhile may be
// missing.
std::vector<pid_t> descendants();

// CPU time of all descendants, the live ones and those that were waited for, in steps of the
// kernel's clock tick, usually 10 ms. A process that ends meanwhile may be counted later.
Nanos cpu_time_of_descendants();

// Sends all descendants the signal, which is to end them.
void signal_descendants(int signal);

// Kills all descendants, also those that start meanwhile, and waits for them.
void kill_descendants();

}  // namespace rubato
