// SPDX-License-Identifier: Apache-2.0
//
// DynamicQuantum: a quantum that follows the service times of short requests (Synergy, 5.1.1.2):
// their moving average times a factor. The average is the worker's, the rule is the policy's. A
// plain value; pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace rubato {

struct DynamicQuantum {
  Nanos initial = Nanos::micros(5);  // the average before the first sample
  Nanos low = Nanos::micros(1);      // ours: bounds of the product
  Nanos high = Nanos::micros(200);   // which wins if they contradict
  uint32_t ema_shift = 3;            // weight of a new sample is 2^-shift
  uint32_t ema_clip = 4;  // ours: a sample counts as at most this many averages; 0 = as it is

  // `average`: Nanos() = no sample yet.
  Nanos of(Nanos average, uint32_t factor) const {
    const Nanos ema = average > Nanos() ? average : initial;
    return std::min(std::max(ema * int64_t{factor}, low), high);
  }

  // A short request is done. A host leaves out what it knows that a thread had no CPU for; what a
  // hypervisor takes it does not see, and one such sample of milliseconds would stretch the quantum
  // for many requests to come. Clipped, it moves the average like a slow request.
  void learn(Nanos& average, Nanos service) const {
    const bool first = average == Nanos();
    const Nanos ema = first ? initial : average;
    const Nanos sample = ema_clip == 0 ? service : std::min(service, ema * int64_t{ema_clip});
    average = first ? sample : ema + (sample - ema) / (int64_t{1} << ema_shift);
  }
};

}  // namespace rubato
