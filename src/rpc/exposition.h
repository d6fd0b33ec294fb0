// SPDX-License-Identifier: Apache-2.0
//
// The admission's families for Prometheus; docs/RPC.md lists them. Any thread.
#pragma once

#include "metrics/open_metrics.h"
#include "rpc/admission.h"
#include "rpc/udp.h"

namespace rubato::rpc {

void expose(OpenMetrics& out, const AdmissionController& admission);
void expose(OpenMetrics& out, const UdpDrops& drops);

}  // namespace rubato::rpc
