// SPDX-License-Identifier: Apache-2.0
//
// What the program and its DPDK plugin, librubato-dpdk.so, know of each other. The plugin is a
// library of its own, so that the program needs no DPDK; both are of one build, since C++ objects
// go from one to the other, and the fingerprint says whether they are.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "datapath/datagram.h"

namespace rubato {

// One more after each change of what goes from one to the other, for builds outside of a checkout.
inline constexpr int kDpdkPluginAbi = 2;

struct DpdkWireOptions {
  std::string port;       // number or name of a port of DPDK
  std::string arguments;  // of DPDK's environment (EAL), as on a command line, without quotes
  std::string bind;       // the port's address
  uint16_t udp_port = 0;  // the first
  uint16_t udp_ports = 1;  // from there on, 1 or more
  uint32_t queues = 1;    // workers
  Nanos nap;              // WireQueue::nap
  Instant (*clock)() = nullptr;  // the program's: the plugin has no calibrated one
};

// The one symbol of the plugin, `rubato_dpdk_plugin`, is of this type.
struct DpdkPlugin {
  const char* fingerprint;
  const char* (*version)();  // of DPDK
  Result<std::unique_ptr<DatagramWire>> (*open)(const DpdkWireOptions& options);
};

inline constexpr const char* kDpdkPluginSymbol = "rubato_dpdk_plugin";

}  // namespace rubato
