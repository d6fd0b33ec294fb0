// SPDX-License-Identifier: Apache-2.0
#include "policy/testing/driven.h"

#include "policy/part.h"

namespace rubato::testing {

std::vector<Driven> all_driven() {
  std::vector<Driven> all;
  for_each_policy_part<RUBATO_POLICY_PARTS>([&]<uint32_t kPart>(PolicyPartNumber<kPart>) {
    add_driven<kPart>(all);
  });
  return all;
}

}  // namespace rubato::testing
