// SPDX-License-Identifier: Apache-2.0
#include "policy/testing/driven.h"

#include "policy/unit.h"

namespace rubato::testing {

std::vector<Driven> all_driven() {
  const auto all = of_each_policy_unit<RUBATO_POLICIES>(
      []<uint32_t kUnit>(PolicyUnit<kUnit>) { return driven_policy<kUnit>(); });
  return {all.begin(), all.end()};
}

}  // namespace rubato::testing
