// SPDX-License-Identifier: Apache-2.0
//
// The desk's families for Prometheus; docs/RPC.md lists them. Any thread.
#pragma once

#include "metrics/open_metrics.h"
#include "rpc/desk.h"
#include "rpc/udp.h"

namespace rubato::rpc {

void expose(OpenMetrics& out, const CreditDesk& desk);
void expose(OpenMetrics& out, const UdpDrops& drops);

}  // namespace rubato::rpc
