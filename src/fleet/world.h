// SPDX-License-Identifier: Apache-2.0
//
// A world: servers and clients in one virtual time. run_world() plays it to its end: clients make
// calls for WorldSpec::length, then those that were measured come to their end. The same spec gives
// the same outcome on every platform. Each call is on its own: any number may run at once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "fleet/population.h"
#include "fleet/server_set.h"
#include "fleet/world_spec.h"
#include "sim/steady_state.h"

namespace rubato::fleet {

struct WorldOutcome {
  std::vector<GroupOutcome> clients;
  std::vector<ServerOutcome> servers;
  Nanos measured;   // time in which measured calls were made
  Nanos start_up;   // time before that, the warm-up at least
  size_t first_batch = 0;      // of those of clients and servers: the measured time begins there
  sim::Steadiness steadiness;  // the worst of clients, servers and all together
  Nanos simulated;  // in all
  bool stopped = false;  // by `progress`
};

// Calls that have not ended when as much time again has passed, and a minute, are unfinished.
// `progress` may be null; it gets the share that is done now and then, and says false to stop.
// Fails with one line.
Result<WorldOutcome> run_world(const WorldSpec& spec,
                               const std::function<bool(double)>& progress = {});

}  // namespace rubato::fleet
