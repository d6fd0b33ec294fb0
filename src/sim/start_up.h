// SPDX-License-Identifier: Apache-2.0
//
// The start-up of a run: the part whose removal leaves the mean latency most certain (MSER: White,
// "An effective truncation heuristic for bias reduction in simulation output", Simulation 69,
// 1997). A pure function over plain values; safe on every thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/batch.h"

namespace rubato::sim {

// The number of batches that are start-up: those that begin with the first `least` arrivals, and
// those in which latencies have not settled. At most half of them.
size_t start_up(std::span<const Batch> batches, uint64_t least);

}  // namespace rubato::sim
