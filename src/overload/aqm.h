// SPDX-License-Identifier: Apache-2.0
//
// Aqm: whether a request is served or dropped, by how long the oldest one has waited (CoreSync
// III-C, D_drop). A plain value.
#pragma once

#include "base/time.h"

namespace rubato::overload {

struct Aqm {
  Nanos refuse_delay;

  bool serves(Nanos delay) const { return delay <= refuse_delay; }
};

}  // namespace rubato::overload
