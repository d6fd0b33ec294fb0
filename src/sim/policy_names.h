// SPDX-License-Identifier: Apache-2.0
//
// Names of policies that can be simulated, as options give them. Any thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace rubato::sim {

// Done if there is such a policy.
Status check_policy(const std::string& name);

// `fcfs,ps,...` without repetition, or `all`.
Status parse_policies(const std::string& text, std::vector<std::string>& names);

}  // namespace rubato::sim
