// SPDX-License-Identifier: Apache-2.0
//
// SimPolicy: the simulator of one policy, each in a unit of its own (policy/unit.h).
// Used by sim/simulation.cc only. A plain value.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/hosted_server.h"
#include "sim/simulation.h"

namespace rubato::sim {

struct SimPolicy {
  // With a Setup that has been checked; each call is on its own.
  using Simulate = Result<Outcome>(const Settings& settings, const Setup& setup,
                                   const Watch& watch);

  using Host = Result<std::unique_ptr<HostedServer>>(const Settings& settings, const Setup& setup,
                                                     ServerClient& client);

  const char* name;
  Simulate* simulate;
  Host* host;
  Simulate* simulate_elastic;  // with sessions and allocated cores; null = it does not go with them
};

template <uint32_t kUnit>
const SimPolicy& sim_policy();

}  // namespace rubato::sim
