// SPDX-License-Identifier: Apache-2.0
//
// ArrivalRecorder: combines the counts of the workers (runtime/arrival_slots.h) into the arrivals
// of the whole server: their rate and how much it varies on every time scale. It covers the time
// from the first request to the last, or a given length; idle time before and after is left out.
//
// One thread calls collect() several times a second, since workers keep counts for a second only.
// Borrows the slots.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "runtime/arrival_slots.h"
#include "workload/arrival_cascade.h"
#include "workload/count_scales.h"

namespace rubato {

class ArrivalRecorder {
 public:
  // Counts settle within this time: a request that is noticed later counts as late.
  static constexpr Nanos kSettle = Nanos::millis(250);

  // `length` counts from the first request; Nanos::max() = without end.
  ArrivalRecorder(std::vector<ArrivalSlots*> workers, Instant start, Nanos length);

  // Takes the slots that have settled at `now`, or every slot with `all`.
  void collect(Instant now, bool all = false);

  bool begun() const { return begun_; }
  bool complete() const { return begun_ && next_ >= end_; }  // the length has passed

  // The rate is 0 while fewer than two slots have a request.
  ArrivalScales arrivals() const;
  double span_s() const;  // from the first slot with a request to the last, but for gaps
  uint64_t late() const;
  uint64_t gaps() const { return gaps_; }  // times that counts were lost, collect() being too rare

 private:
  static constexpr uint64_t kForever = UINT64_MAX;

  void add(uint64_t count);
  void lose_until(uint64_t slot);

  std::vector<ArrivalSlots*> workers_;
  Nanos length_;
  CountScales scales_;
  uint64_t next_;            // slot to take
  uint64_t end_ = kForever;  // slot not to take any more
  uint64_t empty_ = 0;       // slots since the last request, not in scales_ yet
  uint64_t spanned_ = 0;     // slots in scales_
  uint64_t gaps_ = 0;
  bool begun_ = false;
};

}  // namespace rubato
