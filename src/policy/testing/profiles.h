// SPDX-License-Identifier: Apache-2.0
//
// Profiles of request types as a window of that mix would have left them. For tests of policies
// that learn types; single-threaded.
#pragma once

#include <vector>

#include "policy/profile.h"

namespace rubato::testing {

struct TypeOf {
  double micros;
  double share;
};

// A profile as a window would have left it; types are numbered from 1 on.
inline Profile profile(const std::vector<TypeOf>& types) {
  Profile central;
  double all = 0;
  for (const TypeOf& type : types) all += type.micros * type.share;
  for (size_t i = 0; i < types.size(); ++i) {
    central.of(static_cast<uint32_t>(i) + 1).service = Nanos::from_micros(types[i].micros);
    central.of(static_cast<uint32_t>(i) + 1).demand = types[i].micros * types[i].share / all;
  }
  return central;
}

}  // namespace rubato::testing
