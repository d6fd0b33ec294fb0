// SPDX-License-Identifier: Apache-2.0
//
// DPDK's environment for tests: memory of the process, no cards, no files that processes share.
#pragma once

#include <string>

namespace rubato::testing {

inline constexpr const char* kEnvironment =
    "--no-huge -m 320 --no-pci --no-shconf --no-telemetry --log-level=error --vdev=net_null0";

// Whether DPDK itself can start here, in a process of its own and without code of the project.
bool dpdk_starts();

// False: DPDK cannot start here, for that reason. Where it can, but does not, the test has failed.
bool has_environment(std::string& reason);

}  // namespace rubato::testing
