// SPDX-License-Identifier: Apache-2.0
//
// DPDK's environment abstraction layer (EAL): it is started once in a process and ends with it.
#pragma once

#include <string>

#include "base/result.h"

namespace rubato::dpdk {

// Starts the EAL with the arguments, which blanks separate; nothing is done if it runs already. It
// gets one CPU, the first that this thread may use, unless the arguments say otherwise: its threads
// do not serve, and this thread keeps the CPUs that it had. Fails with one line. Main thread.
Status start_eal(const std::string& arguments);

}  // namespace rubato::dpdk
