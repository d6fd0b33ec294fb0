// SPDX-License-Identifier: Apache-2.0
//
// PreemptedDelay: how long preempted requests wait for each other. What is underway beyond one for
// each worker has been preempted. Such requests take turns, so each ends when the others have had
// about as much as it has. One owner.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "overload/admission_books.h"

namespace rubato::overload {

// A wait that is late by a target of its own (decision 11): the same part of that which all share.
inline Nanos in_proportion(Nanos wait, Nanos own_target, Nanos target) {
  if (wait == Nanos()) return wait;
  const double late = static_cast<double>(wait.count()) / static_cast<double>(own_target.count());
  return Nanos(static_cast<int64_t>(late * static_cast<double>(target.count())));
}

class PreemptedDelay {
 public:
  // What all workers have counted by now.
  void learn(const LedgerSums& sums) {
    const int64_t count = sums.preempted - seen_.preempted;
    if (count > 0) {
      const int64_t mean = (sums.preempted_ns - seen_.preempted_ns) / count;
      const int64_t change = mean - service_ns_;
      service_ns_ += service_ns_ == 0 ? change : change * std::min(count, kWeight) / kWeight;
    }
    seen_ = sums;
  }

  // By the measure of the target that all share.
  Nanos delay(const AdmissionSettings& settings, int64_t workers) const {
    const int64_t preempted = seen_.underway - workers;
    if (preempted <= 0 || service_ns_ == 0) return Nanos();
    const Nanos target = settings.credits.target_delay;
    const bool given = settings.target_delay_long > Nanos();
    const Nanos own = given ? settings.target_delay_long
                            : std::max(target, Nanos(service_ns_ * kServices));
    return in_proportion(Nanos(service_ns_ * preempted / workers), own, target);
  }

 private:
  static constexpr int64_t kServices = 8;  // target in mean services: 80 us for 10 (CoreSync IV-A)
  static constexpr int64_t kWeight = 8;    // of the average

  LedgerSums seen_;
  int64_t service_ns_ = 0;  // of preempted ones, on average
};

}  // namespace rubato::overload
