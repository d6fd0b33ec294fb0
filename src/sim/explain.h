// SPDX-License-Identifier: Apache-2.0
//
// The assumptions of a simulated run: one line per modelling assumption in force, for `rubato sim
// --explain`. A change of the engine changes these too. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "sim/setup.h"

namespace rubato::sim {

// In the order in which a request meets them. No line is empty or holds a line break.
std::vector<std::string> explain(const Setup& setup);

}  // namespace rubato::sim
