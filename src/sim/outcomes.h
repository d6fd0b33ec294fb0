// SPDX-License-Identifier: Apache-2.0
//
// The effect of moving requests between managers, counted as Altocumulus does (section VIII-D):
// the same arrivals are simulated twice, with the policy's option `migrate` off and as it was set,
// and every request that was served by another group than it came to is judged by whether it was
// late in either run.
//
// Each call is on its own: any number may run at once on different threads.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "sim/setup.h"
#include "sim/simulation.h"

namespace rubato::sim {

// Of requests that arrived after the warm-up. Refused and lost ones are late.
struct MoveOutcomes {
  Nanos limit;                   // a request that takes longer is late
  uint64_t effective = 0;        // late without moving, in time with it
  uint64_t without_harm = 0;     // in time either way
  uint64_t without_benefit = 0;  // late either way
  uint64_t harmful = 0;          // in time without moving, late with it
  uint64_t late_without = 0;     // of all requests, moved or not, without moving
  uint64_t late_with = 0;        // and with it

  uint64_t moved() const { return effective + without_harm + without_benefit + harmful; }
  MoveOutcomes& operator+=(const MoveOutcomes& other);
};

// The policy has managers, and the option `migrate`.
bool moves_requests(std::string_view policy);

struct JudgedRun {
  Outcome outcome;      // of the run as set
  MoveOutcomes moves;
};

// Of the two runs `watch` sees the progress of both, and everything else of the second. Requires
// moves_requests(policy) and a Watch::done that is not set. Fails as simulate() does. A run that
// was stopped is not judged.
Result<JudgedRun> simulate_and_judge(std::string_view policy, const Settings& settings,
                                     const Setup& setup, Nanos limit, const Watch& watch = {});

}  // namespace rubato::sim
