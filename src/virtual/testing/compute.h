// SPDX-License-Identifier: Apache-2.0
//
// compute: what a request does for a while, with a checkpoint after each step. For tests, on a
// worker in a world.
#pragma once

#include "base/time.h"
#include "mechanism/preempt/checkpoint.h"
#include "virtual/world.h"

namespace rubato::virt::testing {

inline void compute(Nanos time, Nanos step) {
  int64_t left = (time.count() + step.count() - 1) / step.count();
  while (left > 0) {
    left -= spend_steps(step, left);
    checkpoint();
  }
}

}  // namespace rubato::virt::testing
