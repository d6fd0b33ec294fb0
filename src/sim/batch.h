// SPDX-License-Identifier: Apache-2.0
//
// Batch: what happened in one stretch of a run. A run keeps at most kMostBatches of equal length,
// however long it is, for from their differences its figures get their intervals
// (sim/steady_state.h). Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "metrics/packed_histogram.h"

namespace rubato::sim {

inline constexpr size_t kMostBatches = 40;   // then pairs become one: 20 to 40
inline constexpr size_t kCellsPerBatch = 16;

// Requests of one type that left in a batch.
struct TypeBatch {
  PackedHistogram latency, slowdown;
  uint64_t refused = 0, lost = 0;
};

// A part of a batch, to find where the start-up ends.
struct LatencySum {
  uint64_t count = 0;
  double sum_ns = 0;
};

// Sums since the run's begin, at one moment of it.
struct Progress {
  Instant at;
  uint64_t arrived = 0;    // requests
  uint64_t done = 0;       // requests that were completed while others still came
  uint64_t in_system = 0;  // requests that have come and not left
  Nanos work;              // of the requests that came: their service times
  Nanos useful, overhead;  // of all workers' time
};

struct Batch {
  Progress begin, end;
  std::vector<TypeBatch> types;
  std::vector<LatencySum> cells;  // kCellsPerBatch, or fewer in the last
};

// Fills what an Outcome (sim/simulation.h) has of requests: types, measured, done_in_time and
// measured_time, from its batches but for those of the start-up.
struct Outcome;
void sum_batches(Outcome& outcome);

}  // namespace rubato::sim
