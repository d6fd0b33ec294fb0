// SPDX-License-Identifier: Apache-2.0
//
// The preparations for interrupting code that knows nothing of fibers: the map of code that must
// not be left (code_map.h), consulted by every interrupt, and the interposed functions of libc
// (interposed.h), for locks. Called by the code that starts a server; any thread.
#pragma once

#include "base/result.h"

namespace rubato {

// Fails, with the reason, if the program is not built for it.
Status protect_unsafe_code();

}  // namespace rubato
