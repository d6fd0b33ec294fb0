// SPDX-License-Identifier: Apache-2.0
//
// DatagramFlows: the UDP sockets of one run against the synthetic server over plain datagrams
// (docs/DATAPATHS.md). A reply names its request, so each socket may have any number outstanding,
// and replies come in any order; a request without a reply in LoadOptions::reply_timeout is lost.
#pragma once

#include <memory>

#include "load/flows.h"
#include "load/options.h"
#include "load/socket.h"

namespace rubato::load {

std::unique_ptr<Flows> make_datagram_flows(Endpoint endpoint, const LoadOptions& options,
                                           FlowEvents& events);

}  // namespace rubato::load
