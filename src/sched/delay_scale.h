// SPDX-License-Identifier: Apache-2.0
//
// DelayScale: how long a waiting request has waited, in terms of the delay that overload control
// aims at. Plainly, since it arrived. By class or by type, what takes longer may wait longer
// (overload/class_delay.h), and the service that it had in slices is no waiting. Pure but for the
// host that it learns from.
#pragma once

#include <algorithm>
#include <array>

#include "base/limits.h"
#include "base/time.h"
#include "overload/class_delay.h"
#include "policy/contract.h"

namespace rubato::sched {

class DelayScale {
 public:
  enum class By : uint8_t { kNothing, kClass, kType };

  DelayScale(By by, Nanos target) : by_(by), target_(target) { allowed_.fill(target); }

  // What was served so far says what takes long.
  template <class H>
  void learn(H& host) {
    if (by_ == By::kClass) {
      learn_from(2, [&](uint32_t i) { return host.served_as(static_cast<JobClass>(i)); });
    } else if (by_ == By::kType) {
      learn_from(limits::kTypes, [&](uint32_t type) { return host.served(type); });
    }
  }

  Nanos of(const Job& job, Instant now) const {
    if (by_ == By::kNothing) return now - job.arrived;
    const uint32_t index = by_ == By::kClass ? static_cast<uint32_t>(job.job_class)
                                             : std::min(job.type, limits::kTypes - 1);
    return overload::in_terms_of(target_, now - job.arrived - job.attained, allowed_[index]);
  }

 private:
  template <class ServedOf>
  void learn_from(uint32_t count, ServedOf&& served_of) {
    for (uint32_t i = 0; i < count; ++i) {
      const Served served = served_of(i);
      if (served.count == 0) continue;
      const Nanos mean = served.service / static_cast<int64_t>(served.count);
      allowed_[i] = overload::allowed_wait(target_, mean);
    }
  }

  By by_;
  Nanos target_;
  std::array<Nanos, limits::kTypes> allowed_;  // how long each class or type may wait
};

}  // namespace rubato::sched
