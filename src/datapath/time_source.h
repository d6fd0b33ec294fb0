// SPDX-License-Identifier: Apache-2.0
//
// The datapath's only access to the process clock. Any thread.
#pragma once

#include "mechanism/clock/clock.h"

namespace rubato {

inline Instant datapath_now() { return now(); }

// Of what waited for longer than this behind a running request, the kernel is asked when it came.
inline constexpr Nanos kLateLook = Nanos::micros(50);

}  // namespace rubato
