// SPDX-License-Identifier: Apache-2.0
//
// LivePolicy: the live host's instantiation of one policy, each in a unit of its own
// (policy/unit.h). Used by runtime/registry.cc only. A plain value.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/policy_runtime.h"

namespace rubato {

struct LivePolicy {
  const char* name;
  // Requires options whose bounds have been checked, and a CPU per worker or none. Null = the
  // policy is simulated only.
  Result<std::unique_ptr<PolicyRuntime>> (*create)(const RuntimeOptions& options,
                                                   std::vector<uint32_t> cpus,
                                                   HostState& host_state, Datapath& datapath,
                                                   Application& application);
};

template <uint32_t kUnit>
const LivePolicy& live_policy();

}  // namespace rubato
