// SPDX-License-Identifier: Apache-2.0
//
// For systems whose programs share no pipes: no name means a policy that another program has.
#include "sim/piped_policy.h"

namespace rubato::sim {

bool is_piped(std::string_view) { return false; }

Result<Outcome> simulate_piped(std::string_view, const Setup&, const Watch&) {
  return Error{"policies of other programs take pipes, which this system has not"};
}

}  // namespace rubato::sim
