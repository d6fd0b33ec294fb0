// SPDX-License-Identifier: Apache-2.0
//
// What tests of conformance share: their names, and whether a run kept every request. For tests,
// single-threaded.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "policy/testing/driven.h"
#include "policy/testing/replay.h"

namespace rubato::testing {

inline std::string name_of_param(const ::testing::TestParamInfo<Driven>& info) {
  return case_name(info.param.name);
}

// Every arrival departs exactly once or was refused, and no rule was broken.
inline void expect_all_served(const DriveReport& report, size_t arrivals) {
  std::vector<int> seen(arrivals);
  for (const auto& departure : report.departures) ++seen[departure.arrival];
  for (const uint32_t refused : report.refused) ++seen[refused];
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<long>(arrivals));
  for (const std::string& violation : report.violations) ADD_FAILURE() << violation;
}

}  // namespace rubato::testing
