// SPDX-License-Identifier: Apache-2.0
//
// Stalls: the times when the machine itself kept a core from the generator or the server, and the
// requests that these may have touched. A stall of milliseconds sets p99.9 of every policy alike;
// the figures of the requests that no stall can have touched show the effect of the policy.
//
// The rule looks at the due time of a request and the times of the stalls, never at the latency,
// and is the same for every run: a stall that kept a core for `lost` touches the requests due from
// kStallReach before its start (they may still be in the server) to kStallAftermath * lost after
// its end (a server at half its capacity needs as long as the stall to work off its backlog; at
// four fifths, four times as long). The time lost to shorter stalls stays in the figures.
//
// Pure; times are since the start of the run. One owner at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace rubato::load {

inline constexpr Nanos kStallFloor = Nanos::micros(200);  // shorter ones are no stalls
inline constexpr Nanos kStallReach = Nanos::millis(10);
inline constexpr int64_t kStallAftermath = 5;
inline constexpr size_t kMaxTouched = 1 << 16;  // spans kept

struct Stall {
  Nanos start, end;  // the stall lies somewhere between these
  Nanos lost;        // the time without the core
};

class Stalls {
 public:
  // Stalls are added in the order of noticing: a stall must not end before one added earlier
  // started.
  void add(const Stall& stall);

  // Whether a stall added so far touches a request due at `due`. A request older than the spans
  // still kept counts as touched.
  bool touch(Nanos due) const;

  uint64_t count() const { return count_; }
  Nanos lost() const { return lost_; }

 private:
  struct Span {
    Nanos from, to;
  };

  void forget_oldest();

  std::vector<Span> touched_;  // disjoint, in rising order
  Nanos forgotten_before_ = Nanos(INT64_MIN);
  uint64_t count_ = 0;
  Nanos lost_;
};

}  // namespace rubato::load
