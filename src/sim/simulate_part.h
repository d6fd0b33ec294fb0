// SPDX-License-Identifier: Apache-2.0
//
// simulate() of the policies of one part (policy/part.h). Called by sim/simulation.cc only, with a
// Setup that it has checked; each call is on its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/simulation.h"

namespace rubato::sim {

// Nothing = the policy is not of this part.
template <uint32_t kPart>
std::optional<Result<Outcome>> simulate_part(std::string_view policy, const Settings& settings,
                                             const Setup& setup, const Watch& watch);

}  // namespace rubato::sim
