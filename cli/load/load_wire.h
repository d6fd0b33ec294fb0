// SPDX-License-Identifier: Apache-2.0
//
// By what a load's datagrams leave, as --datapath says. Main thread, before the run.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/serve/wire_flags.h"
#include "load/options.h"
#include "load/target.h"

namespace rubato::cli {

// Ports of this side over AF_XDP or DPDK at most, one for each flow.
inline constexpr uint32_t kMostWirePorts = 16384;

// Fails with one line where the system's way to the target does not begin at the interface of
// af_xdp:IFACE.
Status check_way(const WireOptions& options, const load::Target& target);

// Null for sockets of the kernel. `bind`: the address of a port of DPDK; empty = as the system has
// it.
load::OpenWire wire_opener(const WireOptions& options, const std::string& bind);

}  // namespace rubato::cli
