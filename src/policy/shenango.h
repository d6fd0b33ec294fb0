// SPDX-License-Identifier: Apache-2.0
//
// Shenango's scheduling of a fixed set of cores: `steal` by the name under which figures draw it. A
// core that runs dry takes half, rounded up, of the queue of another; it tries all from a random
// one on. Shenango asks the hyperthread on the same core before that, of which there is none here,
// and gives and takes cores, which is not the policy's matter. Pure; see policy/contract.h for who
// calls what.
#pragma once

#include "policy/steal.h"

namespace rubato {

class Shenango : public Steal {
 public:
  static constexpr const char* kName = "shenango";
  static constexpr const char* kSummary =
      "inbox per worker; an idle worker steals half of another; the same as steal";
  static constexpr const char* kSource = "Shenango, NSDI 2019";

  explicit constexpr Shenango(Config config) : Steal(config) {}
};

}  // namespace rubato
