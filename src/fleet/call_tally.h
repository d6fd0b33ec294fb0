// SPDX-License-Identifier: Apache-2.0
//
// CallTally: what becomes of the calls of one group of clients, by the batch (fleet/stretches.h)
// in which each was made. A batch whose calls have all ended is packed. Its memory does not depend
// on the length of the run. One owner.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "fleet/stretches.h"
#include "metrics/histogram.h"
#include "sim/batch.h"

namespace rubato::fleet {

// Of some calls and all that was sent for them.
struct CallCounts {
  uint64_t calls = 0, served = 0, failed = 0, unfinished = 0;
  uint64_t requests = 0, attempts = 0, retries = 0, hedges = 0;
  uint64_t timeouts = 0, refusals = 0;
  uint64_t withheld = 0;     // attempts not sent, as the server would refuse them
  uint64_t over_budget = 0;  // retries and hedges that the budgets did not allow
  uint64_t wasted = 0;       // answers that nobody waited for any more
  uint64_t cancelled = 0;    // attempts that servers were told to leave

  CallCounts& operator+=(const CallCounts& other) {
    for (uint64_t CallCounts::* count :
         {&CallCounts::calls, &CallCounts::served, &CallCounts::failed, &CallCounts::unfinished,
          &CallCounts::requests, &CallCounts::attempts, &CallCounts::retries, &CallCounts::hedges,
          &CallCounts::timeouts, &CallCounts::refusals, &CallCounts::withheld,
          &CallCounts::over_budget, &CallCounts::wasted, &CallCounts::cancelled}) {
      this->*count += other.*count;
    }
    return *this;
  }
};

// The calls of one batch: their latencies by type, and its ends as sums over all calls, also those
// of the warm-up.
struct CallBatch {
  CallCounts counts;
  sim::Batch times;
};

class CallTally {
 public:
  CallTally(size_t types, const Stretches& stretches)
      : types_(types), stretches_(stretches), batches_(stretches.batches()) {}

  // A call is made. Returns the cell that it belongs to.
  uint32_t begin(Instant now) {
    const uint32_t cell = stretches_.cell_at(now);
    ++sums_.arrived;
    ++sums_.in_system;
    ++counts(cell).calls;
    if (cell != Stretches::kNoCell) ++open_batch(cell).open;
    return cell;
  }
  // Of the call of that cell, in which it ends.
  void serve(uint32_t cell, uint32_t type, Nanos latency) {
    ++counts(cell).served;
    if (cell != Stretches::kNoCell) {
      OpenBatch& batch = open_batch(cell);
      batch.latency[type].record(latency);
      sim::LatencySum& sum = batch.cells[cell % sim::kCellsPerBatch];
      ++sum.count;
      sum.sum_ns += static_cast<double>(latency.count());
    }
    end(cell);
  }
  void fail(uint32_t cell) {
    ++counts(cell).failed;
    end(cell);
  }
  // A request of a call comes with that service.
  void add_work(Nanos service) { sums_.work += service; }
  // Of the calls of the cell's batch.
  CallCounts& counts(uint32_t cell) {
    return cell == Stretches::kNoCell ? unmeasured_ : open_batch(cell).counts;
  }

  // The next batch begins, or the last one ends.
  void mark(Instant now) {
    sums_.at = now;
    marks_.push_back(sums_);
    if (marks_.size() >= 2) pack_if_over(static_cast<uint32_t>(marks_.size()) - 2);
  }

  // What was made before the first batch.
  const CallCounts& unmeasured() const { return unmeasured_; }
  // The batches that have ended.
  std::vector<CallBatch> take() {
    std::vector<CallBatch> all;
    for (uint32_t i = 0; i + 1 < marks_.size(); ++i) {
      OpenBatch& batch = batches_[i];
      if (batch.packed.empty()) pack(batch);
      batch.counts.unfinished = batch.counts.calls - batch.counts.served - batch.counts.failed;
      all.push_back({batch.counts,
                     {marks_[i], marks_[i + 1], std::move(batch.packed), std::move(batch.cells)}});
    }
    return all;
  }

 private:
  struct OpenBatch {
    CallCounts counts;
    uint64_t open = 0;  // calls that have not ended
    std::vector<Histogram> latency;  // by type
    std::vector<sim::TypeBatch> packed;
    std::vector<sim::LatencySum> cells;
  };

  OpenBatch& open_batch(uint32_t cell) {
    OpenBatch& batch = batches_[Stretches::batch_of(cell)];
    if (batch.cells.empty()) [[unlikely]] {
      batch.latency.resize(types_);
      batch.cells.resize(sim::kCellsPerBatch);
    }
    return batch;
  }

  void end(uint32_t cell) {
    --sums_.in_system;
    if (cell == Stretches::kNoCell) return;
    --open_batch(cell).open;
    pack_if_over(Stretches::batch_of(cell));
  }

  void pack_if_over(uint32_t number) {
    OpenBatch& batch = batches_[number];
    if (number + 1 < marks_.size() && batch.open == 0) pack(batch);
  }

  void pack(OpenBatch& batch) {
    RUBATO_DCHECK(batch.packed.empty());
    batch.latency.resize(types_);
    for (Histogram& latency : batch.latency) {
      batch.packed.push_back({PackedHistogram::take(latency), {}, 0, 0});
    }
    batch.latency = {};
  }

  size_t types_;
  Stretches stretches_;
  CallCounts unmeasured_;
  sim::Progress sums_;
  std::vector<sim::Progress> marks_;
  std::vector<OpenBatch> batches_;
};

}  // namespace rubato::fleet
