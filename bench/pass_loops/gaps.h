// SPDX-License-Identifier: Apache-2.0
//
// Measures the time between checkpoints: takes the slow path at each of them and reads the time
// stamp counter there. What the slow path itself takes is not counted. One thread. Units: cycles of
// the time stamp counter.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace rubato::loops {

class Gaps {
 public:
  // Between start and stop, every checkpoint of the calling thread is a sample.
  void start();
  void stop();

  uint64_t count() const { return count_; }
  uint64_t longest() const { return longest_; }
  // Gaps so long that somebody else must have had the processor; counted in count and longest only.
  uint64_t stolen() const { return stolen_; }
  // The gap that `share` of all gaps do not exceed, at most 3 % too long. By time: that `share` of
  // the time is spent in, which is what an interrupter who comes at any moment meets.
  uint64_t quantile(double share, bool by_time) const;

 private:
  static constexpr unsigned kFine = 32;  // steps per power of two
  static constexpr uint64_t kStolen = 2'000'000;  // some 0.8 ms

  static unsigned slot_of(uint64_t gap) {
    if (gap < kFine) return static_cast<unsigned>(gap);
    const auto power = static_cast<unsigned>(std::bit_width(gap)) - 6;
    return power * kFine + static_cast<unsigned>(gap >> power);
  }
  static uint64_t end_of(unsigned slot) {
    if (slot < 2 * kFine) return slot;
    const unsigned power = slot / kFine - 1;
    return ((uint64_t{slot % kFine} + kFine + 1) << power) - 1;
  }
  static bool taken();

  void note(uint64_t gap);

  uint64_t last_ = 0;
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  uint64_t longest_ = 0;
  uint64_t stolen_ = 0;
  std::array<uint64_t, 64 * kFine> slots_{};
};

}  // namespace rubato::loops
