// SPDX-License-Identifier: Apache-2.0
//
// For tests over every policy that serves live: its name, and settings of it at random.
#pragma once

#include <ostream>
#include <type_traits>
#include <vector>

#include "base/prng.h"
#include "policy/all.h"
#include "policy/testing/random_settings.h"

namespace rubato::testing {

struct LivePolicy {
  const char* name;
  PolicySettings (*draw_settings)(Prng& prng);

  friend void PrintTo(const LivePolicy& policy, std::ostream* out) { *out << policy.name; }
};

inline std::vector<LivePolicy> all_live() {
  std::vector<LivePolicy> all;
  for_each_policy([&]<class P>(std::type_identity<P>) {
    if (kServesLive<P>) all.push_back({P::kName, draw_settings<P>});
  });
  return all;
}

}  // namespace rubato::testing
