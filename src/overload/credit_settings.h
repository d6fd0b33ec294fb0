// SPDX-License-Identifier: Apache-2.0
//
// CreditSettings: the parameters of credit-based admission. Defaults are CoreSync's (IV-A), which
// are Breakwater's, for requests of 10 us. A plain value.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace rubato::overload {

struct CreditSettings {
  // Delay of the oldest waiting request: above `target_delay` the pool shrinks, above
  // `refuse_delay` request are refused. CoreSync IV-A: 80 us for requests of 10 us, 45 us for 1 us;
  // twice that.
  Nanos target_delay = Nanos::micros(80);
  Nanos refuse_delay = Nanos::micros(160);

  double alpha = 0.001;  // credits per session that an update below the target adds, over 0
  double beta = 0.02;    // how steeply it shrinks above, over 0
  double floor = 0.5;    // the least that an update leaves of it, in 0 .. 1

  Nanos update_every = Nanos::micros(10);  // at least between two updates; a round trip

  int64_t session_limit = 63;  // credits of one session, over 0; the published code's

  // A client that queues said so at its last request; after this long its demand is not believed.
  // The published code uses the clients' queueing limit less a round trip.
  Nanos demand_fresh = Nanos::max();
};

}  // namespace rubato::overload
