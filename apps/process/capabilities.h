// SPDX-License-Identifier: Apache-2.0
//
// Giving up what a process may do beyond others (capabilities(7)). Main thread, at start.
#pragma once

#include "base/result.h"

namespace rubato {

// Gives up CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK and CAP_BPF for good, which take effect only
// where a datapath starts. Holds for this thread and those that it makes later, so call it before
// there are others. Programs that they run do not get these back, unless the system allows no less
// (CAP_SETPCAP). Fails with one line where the kernel refuses.
Status give_up_datapath_capabilities();

}  // namespace rubato
