// SPDX-License-Identifier: Apache-2.0
//
// PreemptedDelay: how long preempted requests wait for each other. What is underway beyond one for
// each worker has been preempted. Such requests take turns, so each ends when the others have had
// about as much as it has. One owner.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "overload/admission_state.h"
#include "overload/class_delay.h"

namespace rubato::overload {

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
    const Nanos turns =
        wait_in_turns(Nanos(service_ns_), seen_.underway - workers, workers);
    const Nanos target = settings.credits.target_delay;
    const bool given = settings.target_delay_long > Nanos();
    const Nanos own = given ? settings.target_delay_long
                            : allowed_wait(target, Nanos(service_ns_));
    return in_terms_of(target, turns, own);
  }

 private:
  static constexpr int64_t kWeight = 8;  // of the average

  LedgerSums seen_;
  int64_t service_ns_ = 0;  // of preempted ones, on average
};

}  // namespace rubato::overload
