// SPDX-License-Identifier: Apache-2.0
//
// ArrivalCascade: arrivals that are as uneven on every time scale as a recording says
// (workload/count_scales.h), at its rate or another.
//
// A long interval is given the number of requests that the rate asks for. It is halved again and
// again, down to the finest slot that was recorded, and each time its requests are shared out
// between the halves so that the square of the difference comes out as recorded:
//
//   * Allan factor 1: each request goes to either half (arrivals are then Poisson);
//   * above 1: one half, at random, gets the larger part of the requests: the random cascade of
//     Meneveau and Sreenivasan ("Simple multifractal cascade model for fully developed
//     turbulence", 1987), which Riedi, Crouse, Ribeiro and Baraniuk fit to network traffic scale
//     by scale ("A multifractal wavelet model with application to network traffic", 1999);
//   * below 1: the halves are alike more often than by chance.
//
// What is finer than the finest slot is uniform; what is coarser than the coarsest scale repeats
// its factor, as slots that know nothing of each other do. Another rate stretches time, so that a
// burst keeps its number of requests and its share of the time, and becomes shorter as the rate
// rises. The same seed gives the same times on every platform. One owner at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/prng.h"
#include "base/time.h"

namespace rubato {

// The arrivals of a recording. Without factors they are Poisson.
struct ArrivalScales {
  static constexpr Nanos kSlot = Nanos(int64_t{1} << 15);  // about 33 us: see docs/PROFILES.md
  static constexpr size_t kMost = 40;
  static constexpr Nanos kLongestSlot = Nanos::seconds(1);
  static constexpr double kMostAllan = 1e12;

  double rate_rps = 0;
  Nanos slot = kSlot;         // the finest
  std::vector<double> allan;  // factor of slots of length slot * 2^i
};

// Rates above 0 up to Arrivals::kMaxRate, slots of 1 ns to kLongestSlot, at most kMost factors of 0
// to kMostAllan that reach no further than half a century.
bool valid(const ArrivalScales& scales);

class ArrivalCascade {
 public:
  ArrivalCascade() = default;  // next() must not be called

  // Requires valid scales and 0 < rate.
  ArrivalCascade(const ArrivalScales& scales, double rate, uint64_t seed);

  // The next request is due this long after the start of the run. Never goes back.
  Nanos next();

 private:
  // How the requests of an interval are shared out between its halves.
  struct Split {
    double swing = 0;    // one half gets (1 + swing) / 2 of them on average
    double regular = 1;  // below 1: the Allan factor to come out
  };
  // An interval whose requests are still to come, as one of a list sorted by time.
  struct Interval {
    uint64_t count = 0;
    uint64_t first = 0;  // its first finest slot, from the start of the longest interval
    uint32_t level = 0;  // it has 2^level finest slots
  };

  void find_splits(const ArrivalScales& scales, double mean_per_slot);
  uint64_t share_of_first_half(uint64_t count, const Split& split);
  void begin_longest();
  Nanos at(double slots) const;

  Prng prng_{0};
  std::vector<Split> splits_;      // of an interval of level i + 1 into two of level i
  double slot_ns_ = 0;             // stretched
  double mean_ = 0;                // requests of the longest interval
  double owed_ = 0;                // of it, what did not make a whole request yet
  double base_slots_ = 0;          // start of the present longest interval
  std::vector<Interval> to_come_;  // the last is next
  Interval leaf_;                  // its requests come now, and are
  double leaf_from_ = 0;           //   left in the slots from here, relative to base_slots_
};

}  // namespace rubato
