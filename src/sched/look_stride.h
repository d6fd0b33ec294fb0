// SPDX-License-Identifier: Apache-2.0
//
// How often a worker that preempts itself looks at its clock: at which checkpoint of the running
// request it looks next, so that it sees the end of a slice soon and makes few looks before. Shared
// by the live worker's slice clock and the simulated worker. Pure; any thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace rubato::sched {

inline constexpr Nanos kLongestLook = Nanos::micros(2);
// A loop may make many checkpoints at no cost and then hard work between them; the stride fitted to
// the former must not cover more of the latter than a short request's time.
inline constexpr int64_t kLongestStride = 64;

// The time of one checkpoint, measured since the look before: it was followed by `stride`
// checkpoints without a look. At least 1 ns.
constexpr int64_t per_checkpoint(Nanos since_last_look, int64_t stride) {
  return std::max<int64_t>(1, since_last_look.count() / (stride + 1));
}

// Checkpoints to pass without a look where the slice goes on for `left`: half of that, so that
// checkpoints that grow dearer cannot overshoot by much; all of it where it is short, as then they
// cannot overshoot by more than they could earlier in the slice.
constexpr int64_t look_stride(Nanos left, int64_t per_checkpoint_ns) {
  const Nanos ahead = left <= kLongestLook / 2 ? left : std::min(left / 2, kLongestLook);
  return std::min(ahead.count() / per_checkpoint_ns, kLongestStride);
}

// The same where no slice depends on the look, which only tells whether the reply is still wanted:
// first, and after each look.
inline constexpr int64_t kFirstRareStride = 64;
constexpr int64_t rare_look_stride(int64_t per_checkpoint_ns) {
  constexpr Nanos kRareLook = Nanos::micros(100);
  constexpr int64_t kRareStride = 1024;
  return std::min(kRareLook.count() / per_checkpoint_ns, kRareStride);
}

}  // namespace rubato::sched
