// SPDX-License-Identifier: Apache-2.0
//
// RecordRing: what one worker says, for a recorder, while that is wanted. The worker notes, the
// recorder's thread takes; the records wait in an SpscQueue, whose memory order is all there is. A
// record that finds it full is counted and left out, so that a slow disk delays nobody.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "mechanism/queue/spsc_queue.h"
#include "metrics/counter.h"

namespace rubato {

// `Wanted` converts to bool: false = nothing is wanted.
template <class Record, class Wanted>
class RecordRing {
 public:
  static constexpr uint32_t kCapacity = 1u << 14;

  // Any thread. Relaxed: what ends just then may be in or not.
  void want(Wanted wanted) { wanted_.store(wanted, std::memory_order_relaxed); }
  Wanted wanted() const { return wanted_.load(std::memory_order_relaxed); }

  // The worker.
  void put(const Record& record) {
    if (!records_.put(record)) ++dropped_;
  }

  // The recorder.
  uint32_t take(std::span<Record> records) { return records_.take_batch(records); }

  // Any thread. Since the start.
  uint64_t dropped() const { return dropped_.value(); }

 private:
  SpscQueue<Record> records_{kCapacity};
  std::atomic<Wanted> wanted_{};
  Counter dropped_;
};

template <class Ring>
uint64_t dropped_by(const std::vector<Ring*>& rings) {
  uint64_t sum = 0;
  for (const Ring* ring : rings) sum += ring->dropped();
  return sum;
}

}  // namespace rubato
