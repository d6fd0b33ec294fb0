// SPDX-License-Identifier: Apache-2.0
#include "mechanism/clock/calibration.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace rubato {
namespace {

constexpr size_t kPairsMax = 64;

}  // namespace

double nanos_per_cycle(std::span<const ClockPair> pairs) {
  RUBATO_CHECK(pairs.size() <= kPairsMax);
  std::vector<double> slopes;
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (size_t j = i + (pairs.size() + 2) / 3; j < pairs.size(); ++j) {
      if (pairs[j].cycles <= pairs[i].cycles || pairs[j].ns <= pairs[i].ns) continue;
      slopes.push_back(static_cast<double>(pairs[j].ns - pairs[i].ns) /
                       static_cast<double>(pairs[j].cycles - pairs[i].cycles));
    }
  }
  if (slopes.empty()) return 0;
  const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
  std::nth_element(slopes.begin(), middle, slopes.end());
  return *middle;
}

}  // namespace rubato
