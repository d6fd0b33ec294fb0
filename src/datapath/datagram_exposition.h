// SPDX-License-Identifier: Apache-2.0
//
// The figures of a datagram wire as OpenMetrics. Any thread.
#pragma once

#include "datapath/datagram.h"
#include "metrics/open_metrics.h"

namespace rubato {

// Appends the families; `no_request`: datagrams that reached the protocol and were none.
void expose(OpenMetrics& out, const DatagramDrops& drops, uint64_t no_request);

}  // namespace rubato
