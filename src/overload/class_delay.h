// SPDX-License-Identifier: Apache-2.0
//
// How late a class of requests is that takes longer than others: it may wait for as many of its own
// mean services as CoreSync's target is of its workload's (80 us for 10 us, IV-A), but never for
// less than the target that all share (docs/decisions/011-overload-by-class.md). Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"

namespace rubato::overload {

inline constexpr int64_t kServicesToWait = 8;

// How long requests of that mean service may wait where short ones may wait for `target`.
constexpr Nanos allowed_wait(Nanos target, Nanos service, int64_t services = kServicesToWait) {
  return std::max(target, service * services);
}

// A wait by the measure of `target`: the same part of it as `wait` is of what is allowed.
constexpr Nanos in_terms_of(Nanos target, Nanos wait, Nanos allowed) {
  if (wait == Nanos()) return wait;
  RUBATO_DCHECK(allowed > Nanos());
  const double late = static_cast<double>(wait.count()) / static_cast<double>(allowed.count());
  return Nanos(static_cast<int64_t>(late * static_cast<double>(target.count())));
}

// How long one of several preempted requests of that service waits for the others: they take turns,
// so each ends when the others have had about as much as it has. Requires workers > 0.
constexpr Nanos wait_in_turns(Nanos service, int64_t preempted, int64_t workers) {
  RUBATO_DCHECK(workers > 0);
  return preempted > 0 ? service * preempted / workers : Nanos();
}

}  // namespace rubato::overload
