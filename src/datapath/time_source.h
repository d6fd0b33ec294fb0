// SPDX-License-Identifier: Apache-2.0
//
// The datapath's one way to the process clock. Any thread.
#pragma once

#include "mechanism/clock/clock.h"

namespace rubato {

inline Instant datapath_now() { return now(); }

}  // namespace rubato
