// SPDX-License-Identifier: Apache-2.0
//
// The datapath's only access to the process clock. Any thread.
#pragma once

#include "mechanism/clock/clock.h"

namespace rubato {

inline Instant datapath_now() { return now(); }

}  // namespace rubato
