// SPDX-License-Identifier: Apache-2.0
//
// The output of `rubato sim --find-max`: the table for people and the object `rubato.max/1`. Pure
// functions; safe on every thread.
#pragma once

#include <string>
#include <vector>

#include "cli/sim/sim_flags.h"
#include "planning/find_max.h"

namespace rubato::cli {

std::string max_table(const SimOptions& options, const std::vector<planning::MaxLoad>& results);
std::string max_json(const SimOptions& options, const std::vector<planning::MaxLoad>& results,
                     const std::string& version);

}  // namespace rubato::cli
