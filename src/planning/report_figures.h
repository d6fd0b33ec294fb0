// SPDX-License-Identifier: Apache-2.0
//
// Figures that are looked up in the report of simulated runs. Pure functions; safe on every thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/report.h"

namespace rubato::planning {

// The half-width of the interval of the figure at `path` of the report's JSON; 0 with one seed.
inline double half_width(const sim::SimReport& report, std::string_view path) {
  for (const sim::Confidence& confidence : report.confidence) {
    if (confidence.path == path) return confidence.half_width;
  }
  return 0;
}

// Requests that were answered, of all types.
inline uint64_t measured(const RunReport& run) {
  uint64_t count = 0;
  for (const TypeReport& type : run.types) count += type.count;
  return count;
}

}  // namespace rubato::planning
