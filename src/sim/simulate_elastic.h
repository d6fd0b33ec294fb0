// SPDX-License-Identifier: Apache-2.0
//
// simulate() of setups that are elastic (sim/elastic.h). Called by sim/simulation.cc only, with a
// Setup that it has checked but for its elastic part; each call is on its own.
#pragma once

#include <string_view>

#include "sim/simulation.h"

namespace rubato::sim {

// Fails with one line on a policy that does not go with it, and on whatever of the setup does not.
Result<Outcome> simulate_elastic(std::string_view policy, const Settings& settings,
                                 const Setup& setup, const Watch& watch);

}  // namespace rubato::sim
