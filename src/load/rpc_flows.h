// SPDX-License-Identifier: Apache-2.0
//
// RpcFlows: the sessions of one run that speaks Rubato RPC (rpc/client_session.h), one connection,
// UDP socket or port of a wire each. A request goes to its session at once; the session decides
// whether the request is sent, waits for credit, or is not sent.
#pragma once

#include <memory>

#include "load/flows.h"
#include "load/options.h"
#include "load/socket.h"

namespace rubato::load {

std::unique_ptr<Flows> make_rpc_flows(Endpoint endpoint, const LoadOptions& options,
                                      FlowEvents& events);

}  // namespace rubato::load
