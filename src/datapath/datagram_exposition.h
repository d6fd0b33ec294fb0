// SPDX-License-Identifier: Apache-2.0
//
// The figures of a datagram wire as OpenMetrics. Any thread.
#pragma once

#include "datapath/datagram_datapath.h"
#include "metrics/open_metrics.h"

namespace rubato {

// Appends the families, of a wire and what is above it.
void expose(OpenMetrics& out, const DatagramDrops& wire, const DatagramDatapath::Drops& above = {});

}  // namespace rubato
