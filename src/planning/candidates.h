// SPDX-License-Identifier: Apache-2.0
//
// Which policies a command simulates, each with the settings that are its own. Plain values; pure
// functions, for set-up on one thread. Errors are one line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/simulation.h"

namespace rubato::planning {

struct Candidate {
  std::string policy;
  sim::Settings settings;
};

// `NAME=VALUE`, for every policy that has that option, or `POLICY.NAME=VALUE`, for that one.
struct Setting {
  std::string policy;  // "" = all that have it
  std::string name;
  std::string value;
};

Result<Setting> parse_setting(const std::string& text);

// Fails on settings of which one voids another.
Status check_together(const Candidate& candidate);

// A candidate per policy, in order. Fails on a setting that no policy has, on a value that one does
// not take, and on a setting that another one voids. Where settings repeat, one for a single policy
// counts, else the last.
Result<std::vector<Candidate>> candidates_of(const std::vector<std::string>& policies,
                                             const std::vector<Setting>& settings);

}  // namespace rubato::planning
