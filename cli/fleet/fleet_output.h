// SPDX-License-Identifier: Apache-2.0
//
// What `rubato fleet` prints and writes of a world. Pure functions.
#pragma once

#include <string>

#include "fleet/replications.h"

namespace rubato::cli {

// Groups of clients, groups of servers, with `timeline` a line per slice, and the verdict. Figures
// have half of their 95 % intervals after a +-, or a ?.
std::string fleet_table(const fleet::WorldSpec& spec, const fleet::Replications& runs,
                        bool timeline);

// An object rubato.fleet/1 with a trailing newline.
std::string fleet_json(const fleet::WorldSpec& spec, const fleet::Replications& runs,
                       const std::string& world, const std::string& version);

}  // namespace rubato::cli
