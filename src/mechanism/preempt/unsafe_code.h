// SPDX-License-Identifier: Apache-2.0
//
// What has to be in place before code that knows nothing of fibers may be interrupted: the map of
// code that must not be left (code_map.h), asked by every interrupt, and the interposed functions
// of libc (interposed.h), for locks. Called before a server starts; any thread.
#pragma once

#include "base/result.h"

namespace rubato {

// Fails, with the reason, where the program is not made for it.
Status protect_unsafe_code();

}  // namespace rubato
