// SPDX-License-Identifier: Apache-2.0
//
// TraceRing: what one worker did, for a recorder (runtime/trace_recorder.h): slices, marks and the
// depths of its queues, as in a simulated trace (metrics/trace.h). The worker notes, the recorder's
// thread takes; the records wait in an SpscQueue, whose memory order is all there is. A record that
// finds it full is counted and left out, so that a slow disk delays nobody.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/time.h"
#include "mechanism/queue/spsc_queue.h"
#include "metrics/counter.h"
#include "metrics/trace.h"

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
  What what = What::kSlice;
  Trace::End how = Trace::End::kFinished;
};

class TraceRing {
 public:
  static constexpr uint32_t kCapacity = 1u << 14;  // 1 MiB

  // Any thread. Which trace is wanted, from 1 on; 0 = none. Relaxed: what ends just then may be in
  // or not.
  void want(uint32_t trace) { wanted_.store(trace, std::memory_order_relaxed); }
  uint32_t wanted() const { return wanted_.load(std::memory_order_relaxed); }

  // The worker.
  void put(const TraceRecord& record) {
    if (!records_.put(record)) ++dropped_;
  }

  // The recorder.
  uint32_t take(std::span<TraceRecord> records) { return records_.take_batch(records); }

  // Any thread. Since the start.
  uint64_t dropped() const { return dropped_.value(); }

 private:
  SpscQueue<TraceRecord> records_{kCapacity};
  std::atomic<uint32_t> wanted_{0};
  Counter dropped_;
};

}  // namespace rubato
