// SPDX-License-Identifier: Apache-2.0
//
// DPDK's environment for tests: memory of the process, no cards, no files that processes share.
#pragma once

#include <string>

#include "dpdk/eal.h"

namespace rubato::testing {

inline constexpr const char* kEnvironment =
    "--no-huge -m 320 --no-pci --no-shconf --no-telemetry --log-level=error --vdev=net_null0";

// False: it does not start here, for that reason.
inline bool has_environment(std::string& reason) {
  const Status started = dpdk::start_eal(kEnvironment);
  if (!started.ok()) reason = started.error();
  return started.ok();
}

}  // namespace rubato::testing
