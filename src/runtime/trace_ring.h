// SPDX-License-Identifier: Apache-2.0
//
// TraceRing: what one worker did, for a recorder (runtime/trace_recorder.h): slices, marks and the
// depths of its queues, as in a simulated trace (metrics/trace.h).
#pragma once

#include <cstdint>

#include "base/time.h"
#include "metrics/trace.h"
#include "runtime/record_ring.h"

namespace rubato {

struct TraceRecord {
  enum class What : uint8_t { kSlice, kMark, kDepth };

  Instant start{};  // of a slice; else the moment
  Instant end{};    // of a slice, and of its request:
  Instant arrived{};
  Instant started{};
  const void* request = nullptr;  // with `started` it tells requests apart
  const char* name = nullptr;     // of a mark, of a queue; static
  uint32_t type = 0;              // of a slice; of a depth: the index of the queue
  uint32_t depth = 0;
  uint32_t avoided = 0;  // of a slice, as in Trace::Request
  What what = What::kSlice;
  Trace::End how = Trace::End::kFinished;
};

// Wants the number of a trace, from 1 on; 0 = none. 1 MiB.
class TraceRing final : public RecordRing<TraceRecord, uint32_t> {};

}  // namespace rubato
