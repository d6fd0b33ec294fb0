// SPDX-License-Identifier: Apache-2.0
//
// TypeTotals: requests that came and were served since the start, by type and by class, as policies
// ask for them. Types from limits::kTypes on count as the last one. One owner.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/limits.h"
#include "policy/contract.h"
#include "policy/job.h"

namespace rubato::sim {

class TypeTotals {
 public:
  void note_arrived(const Job& job) { ++arrived_[index_of(job)]; }
  void note_served(const Job& job, Nanos service) {
    for (Served* served : {&served_[index_of(job)],
                           &served_as_[static_cast<size_t>(job.job_class)]}) {
      ++served->count;
      served->service += service;
      served->waited += job.started - job.arrived;
    }
  }

  // Requires type < limits::kTypes; both.
  uint64_t arrived(uint32_t type) const { return arrived_[type]; }
  const Served& served(uint32_t type) const { return served_[type]; }
  const Served& served_as(JobClass job_class) const {
    return served_as_[static_cast<size_t>(job_class)];
  }

 private:
  static uint32_t index_of(const Job& job) { return std::min(job.type, limits::kTypes - 1); }

  std::array<Served, limits::kTypes> served_{};
  std::array<Served, 2> served_as_{};
  std::array<uint64_t, limits::kTypes> arrived_{};
};

}  // namespace rubato::sim
