// SPDX-License-Identifier: Apache-2.0
//
// Names a build of Rubato: its version, its compiler, and the sizes of what the program and its
// plugin hand to each other. Pure.
#pragma once

#include <string>

#include "dpdk/plugin.h"

namespace rubato {

inline std::string dpdk_fingerprint(const std::string& version) {
  return version + "/" + __VERSION__ + "/" + std::to_string(sizeof(Datagram)) +
         "." + std::to_string(sizeof(DpdkWireOptions)) + "." +
         std::to_string(sizeof(DatagramDrops));
}

}  // namespace rubato
