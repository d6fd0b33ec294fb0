// SPDX-License-Identifier: Apache-2.0
//
// CountScales: how unevenly requests come, on all time scales at once, in a few dozen numbers.
//
// It is given how many requests came in each slot of some fixed length, one slot after the other,
// and keeps for slots of that length, of twice that, four times that and so on the Allan factor:
// the mean square of the difference between the counts of two neighbouring slots, over twice the
// mean count (Allan, "Statistics of atomic frequency standards", 1966; for point processes Lowen
// and Teich, "Fractal-Based Point Processes", 2005, chapter 5). It is 1 on every scale for
// independent arrivals (Poisson), 0 where slots are all alike, and as large as bursts are: about
// the mean size of batches, and more on the scales on which the rate itself changes. Unlike the
// index of dispersion it is not inflated by a slow drift over the whole recording.
//
// A plain value of one owner. Its size and the time that a slot takes do not depend on how much it
// has seen.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rubato {

class CountScales {
 public:
  static constexpr size_t kScales = 18;
  // A scale with fewer pairs is not told: with so many the factor is right to about a third.
  static constexpr uint64_t kFewestPairs = 16;

  // The next slot.
  void add(uint64_t count) {
    total_ += count;
    carry(0, count);
  }

  // The next slots, none of which had a request. Takes the logarithm of their number.
  void add_empty(uint64_t slots);

  // Slots are missing here: what comes next is no neighbour of what came before.
  void skip() { halves_ = 0; }

  uint64_t total() const { return total_; }  // requests in all slots

  // The factor of each scale from the finest on, as far as enough pairs were seen of all of them.
  std::vector<double> allan() const;

 private:
  // Slots of one length, by twos.
  struct Scale {
    uint64_t first = 0;     // count of the first of two, while the second is not complete
    uint64_t pairs = 0;
    double paired = 0;      // requests in all pairs
    double squares = 0;     // of the differences, summed
  };

  void carry(size_t scale, uint64_t count);

  std::array<Scale, kScales> scales_{};
  uint64_t halves_ = 0;  // bit i: the first slot of a pair of scale i has been seen
  uint64_t total_ = 0;
};

}  // namespace rubato
