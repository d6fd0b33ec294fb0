// SPDX-License-Identifier: Apache-2.0
//
// ArrivalSlots: how many requests one worker took in, per slot of about 33 us, for the last second.
// A recorder repeatedly takes the counts of all workers (runtime/traffic_recorder.h), because each
// worker sees only a part of the arrivals of the server.
//
// One thread notes arrivals (the worker), one takes the counts (the recorder). A slot is one word
// that holds its number and its count, so nothing need be cleared and no read is torn: the worker
// writes the word of the present second over that of the second before. All accesses are relaxed;
// nothing else is read because of them. A request noted for a slot that has been taken already,
// because the request was held up in the kernel or in its pipeline, counts as late instead, as do
// requests beyond 65535 in a slot. (A request noted in the very moment in which its slot is taken,
// which is then a quarter of a second old, may be in neither.)
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/limits.h"
#include "base/time.h"
#include "metrics/counter.h"

namespace rubato {

class alignas(limits::kCacheLineBytes) ArrivalSlots {
 public:
  static constexpr int kSlotBits = 15;                  // of the clock's nanoseconds
  static constexpr uint64_t kSlots = uint64_t{1} << 15;  // 1.07 s, 256 KiB

  static constexpr uint64_t slot_of(Instant at) {
    return static_cast<uint64_t>(at.ns()) >> kSlotBits;
  }

  // The worker.
  void note(Instant arrived) {
    const uint64_t slot = slot_of(arrived);
    std::atomic<uint64_t>& word = words_[slot % kSlots];
    const uint64_t seen = word.load(std::memory_order_relaxed);
    if (slot < taken_.load(std::memory_order_relaxed) || (seen >> kCountBits) > slot) [[unlikely]] {
      return late_.add();
    }
    const uint64_t before = (seen >> kCountBits) == slot ? seen : slot << kCountBits;
    if ((before & kMostCount) == kMostCount) [[unlikely]] return late_.add();
    word.store(before + 1, std::memory_order_relaxed);
    newest_.raise_to(slot);
  }
  void note_control() { control_.add(); }

  // The recorder, before it reads any of the slots below `end`.
  void take_until(uint64_t end) { taken_.store(end, std::memory_order_relaxed); }

  // Any thread. The count of a slot of the last second.
  uint64_t count(uint64_t slot) const {
    const uint64_t word = words_[slot % kSlots].load(std::memory_order_relaxed);
    return (word >> kCountBits) == slot ? word & kMostCount : 0;
  }
  uint64_t newest() const { return newest_.value(); }    // slot with an arrival
  uint64_t late() const { return late_.value(); }
  uint64_t control() const { return control_.value(); }  // control-plane requests, in no slot

 private:
  static constexpr int kCountBits = 16;
  static constexpr uint64_t kMostCount = (uint64_t{1} << kCountBits) - 1;

  std::array<std::atomic<uint64_t>, kSlots> words_{};
  Peak newest_;
  Counter late_;
  Counter control_;
  alignas(limits::kCacheLineBytes) std::atomic<uint64_t> taken_{0};
};

}  // namespace rubato
