// SPDX-License-Identifier: Apache-2.0
//
// DelayScale: how long a waiting request has waited, in terms of the delay that overload control
// aims at. Plainly, since it arrived. By class or by type, what takes longer may wait longer: as
// many of its mean services as the paper's target is of its workload's (80 us for 10 us, CoreSync
// IV-A), but never less than the target; and the service that it had in slices is no waiting. Pure
// but for the host that it learns from.
#pragma once

#include <algorithm>
#include <array>

#include "base/limits.h"
#include "base/time.h"
#include "policy/contract.h"

namespace rubato::sim {

class DelayScale {
 public:
  enum class By : uint8_t { kNothing, kClass, kType };

  static constexpr double kServices = 8;

  DelayScale(By by, Nanos target) : by_(by), target_ns_(static_cast<double>(target.count())) {
    shares_.fill(1);
  }

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
    const auto waited = static_cast<double>((now - job.arrived - job.attained).count());
    return Nanos(static_cast<int64_t>(waited * shares_[index]));
  }

 private:
  template <class ServedOf>
  void learn_from(uint32_t count, ServedOf&& served_of) {
    for (uint32_t i = 0; i < count; ++i) {
      const Served served = served_of(i);
      if (served.count == 0) continue;
      const double mean =
          static_cast<double>(served.service.count()) / static_cast<double>(served.count);
      shares_[i] = std::min(1.0, target_ns_ / (kServices * mean));
    }
  }

  By by_;
  double target_ns_;
  std::array<double, limits::kTypes> shares_;
};

}  // namespace rubato::sim
