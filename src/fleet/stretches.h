// SPDX-License-Identifier: Apache-2.0
//
// Stretches: the measured time of a world in batches of equal length, from whose differences its
// figures get their intervals (sim/steady_state.h), and these in cells, to find where the start-up
// ends (sim/start_up.h). A plain value.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "fleet/world_spec.h"
#include "sim/batch.h"

namespace rubato::fleet {

class Stretches {
 public:
  static constexpr uint32_t kNoCell = UINT32_MAX;

  explicit Stretches(const WorldSpec& spec) {
    until_ = Instant(spec.length.count());
    const Instant warm(Nanos::from_seconds(spec.length.seconds() * spec.warmup).count());
    from_ = std::min(warm, until_ - Nanos(1));
    const int64_t cells = int64_t{sim::kMostBatches} * int64_t{sim::kCellsPerBatch};
    cell_ = Nanos(((until_ - from_).count() + cells - 1) / cells);
  }

  Instant from() const { return from_; }
  Instant until() const { return until_; }
  // The cell of a call that is made then; kNoCell = it is not measured. Requires that it is before
  // the end.
  uint32_t cell_at(Instant made) const {
    return made < from_ ? kNoCell : static_cast<uint32_t>((made - from_).count() / cell_.count());
  }
  static uint32_t batch_of(uint32_t cell) { return cell / sim::kCellsPerBatch; }
  // At most sim::kMostBatches, the last of which may be shorter.
  uint32_t batches() const { return batch_of(cell_at(until_ - Nanos(1))) + 1; }
  // Where a batch begins, or, of batches(), where the last one ends.
  Instant begin_of(uint32_t batch) const {
    return std::min(until_, from_ + cell_ * (int64_t{batch} * int64_t{sim::kCellsPerBatch}));
  }

 private:
  Instant from_, until_;
  Nanos cell_;
};

}  // namespace rubato::fleet
