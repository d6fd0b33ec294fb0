// SPDX-License-Identifier: Apache-2.0
//
// CostMeter: the virtual clock of a run, and the cost so far of the decision that is being made. A
// decision takes effect at now(); its cost delays the next step of its context. The random numbers
// are those of prices with a tail. kFree: every price is nothing. One owner.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/prng.h"
#include "base/time.h"
#include "sim/costs.h"

namespace rubato::sim {

template <bool kFree>
class CostMeter {
 public:
  explicit CostMeter(uint64_t seed) : prng_(seed) {}

  Instant now() const { return now_; }
  // To the next event.
  void advance(Instant to) {
    RUBATO_DCHECK(to >= now_);
    now_ = to;
  }

  // The run ended at an earlier event: the last one changed nothing.
  void end_at(Instant end) { now_ = end; }

  // A decision begins.
  void reset() { spent_ = Nanos(); }
  // One that began so much earlier, until which it has spent less than nothing.
  void begin_before(Nanos earlier) { spent_ = Nanos() - earlier; }
  void catch_up() { spent_ = std::max(spent_, Nanos()); }
  Nanos spent() const { return kFree ? Nanos() : spent_; }
  void spend(Nanos cost) {
    RUBATO_DCHECK(kFree ? cost == Nanos() : cost >= Nanos());
    spent_ += cost;
  }
  void spend(const Price& price) { spent_ += draw(price); }
  Nanos draw(const Price& price) {
    if (kFree) return Nanos();
    if (price.tail > price.typical && prng_.below(Price::kTailEvery) == 0) [[unlikely]]
      return price.tail;
    return price.typical;
  }

  // Uniformly within `spread` of `mean`, at least 0.
  Nanos draw(Nanos mean, Nanos spread) {
    if (spread == Nanos()) return mean;
    const int64_t ns = prng_.below(static_cast<uint32_t>(2 * spread.count() + 1));
    return std::max(Nanos(), mean + Nanos(ns) - spread);
  }

 private:
  Prng prng_;
  Instant now_;
  Nanos spent_;
};

}  // namespace rubato::sim
