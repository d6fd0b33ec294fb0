// SPDX-License-Identifier: Apache-2.0
//
// DatagramFlows: the UDP sockets, or ports of a wire, of one run against the synthetic server over
// plain datagrams, or a server of memcached's text protocol over UDP (docs/DATAPATHS.md). A reply
// names its request, so each socket may have any number outstanding, and replies come in any order.
// A request is lost if its reply, or one of the datagrams of its reply, has not come in
// LoadOptions::reply_timeout; nothing is sent again. A request that does not fit in a datagram is
// an error, and so is one for which its socket has no id left, of the 65536 of memcached's
// protocol.
#pragma once

#include <memory>

#include "load/flows.h"
#include "load/options.h"
#include "load/socket.h"

namespace rubato::load {

std::unique_ptr<Flows> make_datagram_flows(Endpoint endpoint, const LoadOptions& options,
                                           FlowEvents& events);

}  // namespace rubato::load
