// SPDX-License-Identifier: Apache-2.0
//
// LiveLimiter: the Limiter of overload/limiter.h among the threads of a live runtime, which says
// who may call what and how its memory is ordered.
#pragma once

#include <atomic>

#include "overload/limiter.h"

namespace rubato {

struct LiveCells {
  template <class T>
  using Cell = std::atomic<T>;
};
using LiveLimiter = overload::Limiter<LiveCells>;

}  // namespace rubato
