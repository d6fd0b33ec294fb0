// SPDX-License-Identifier: Apache-2.0
#include "policy/testing/driven.h"

#include "policy/unit.h"

namespace rubato::testing {

std::vector<Driven> all_driven() {
  std::vector<Driven> all;
  for_each_policy_unit<RUBATO_POLICIES>([&]<uint32_t kUnit>(PolicyUnit<kUnit>) {
    all.push_back(driven_policy<kUnit>());
  });
  return all;
}

}  // namespace rubato::testing
