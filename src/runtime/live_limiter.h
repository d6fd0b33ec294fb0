// SPDX-License-Identifier: Apache-2.0
//
// LiveLimiter: the Limiter of overload/limiter.h among the threads of a live runtime, which says
// who may call what and how its memory is ordered.
#pragma once

#include "mechanism/queue/live_cells.h"
#include "overload/limiter.h"

namespace rubato {

using LiveLimiter = overload::Limiter<LiveCells>;

}  // namespace rubato
