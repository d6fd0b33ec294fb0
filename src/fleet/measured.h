// SPDX-License-Identifier: Apache-2.0
//
// What of a world's run is measured, and how far it can be trusted: the start-up that is left out,
// the sums of the rest, and the verdict, by the means of one simulated server (sim/start_up.h,
// sim/steady_state.h). Pure functions over plain values.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "fleet/call_tally.h"
#include "fleet/world.h"
#include "fleet/world_spec.h"
#include "sim/batch.h"

namespace rubato::fleet {

// Fills the sums and the verdict of an outcome that has its batches and marks. A world in which
// something is to change, by an episode or a recording, has no start-up but the warm-up.
void sum_measured(const WorldSpec& spec, WorldOutcome& outcome);

// What of them sim/steady_state.h looks at.
std::vector<sim::Batch> times_of(std::span<const CallBatch> batches);

// Of the servers [first, first + count), the batches that are measured: their requests as one type
// without latencies, and times of all their workers.
std::vector<sim::Batch> server_batches(const WorldOutcome& outcome, size_t first, size_t count);

}  // namespace rubato::fleet
