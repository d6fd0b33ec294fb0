// SPDX-License-Identifier: Apache-2.0
//
// What can be tried of a policy's options: a coarse grid around the defaults. Pure functions over
// the list of all policies; for set-up, safe on every thread.
#pragma once

#include <string>
#include <vector>

#include "sim/simulation.h"

namespace rubato::planning {

struct Parameter {
  std::string name;
  std::string default_value;                   // the default, as --set would have it
  std::vector<std::string> alternatives;  // values that --set takes, without the default
};

// For times and numbers, the alternatives are a quarter, half, twice and four times the default, as
// far as they are in range; for flags, the other value. Options that are 0 unless asked for (off,
// or found by the policy itself) have no scale and are left out.
std::vector<Parameter> parameters_of(const std::string& policy);

// `settings` with that option at that value; the default is left out.
sim::Settings with_parameter(sim::Settings settings, const Parameter& parameter,
                             const std::string& value);

// Its value in `settings`.
const std::string& value_of(const sim::Settings& settings, const Parameter& parameter);

}  // namespace rubato::planning
