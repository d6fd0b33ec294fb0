// SPDX-License-Identifier: Apache-2.0
//
// Names a build of Rubato: its version and sanitizer, its commit, its compiler, and the sizes of
// what the program and its plugin hand to each other. Pure.
#pragma once

#include <string>

#include "dpdk/plugin.h"

namespace rubato {

// As `rubato --version` says it; written at each build.
const char* dpdk_commit();

// `version`: with the sanitizer that the build has.
inline std::string dpdk_fingerprint(const std::string& version, const std::string& commit) {
  return version + "/" + commit + "/" + __VERSION__ + "/" + std::to_string(kDpdkPluginAbi) + "." +
         std::to_string(sizeof(Datagram)) + "." + std::to_string(sizeof(DpdkWireOptions)) + "." +
         std::to_string(sizeof(DatagramDrops));
}

}  // namespace rubato
