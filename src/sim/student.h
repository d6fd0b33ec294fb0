// SPDX-License-Identifier: Apache-2.0
//
// The 97.5 % quantile of Student's t distribution. A pure function.
#pragma once

#include <array>
#include <cstddef>

namespace rubato::sim {

// Requires degrees >= 1.
inline double student(size_t degrees) {
  constexpr std::array kStudent = {
      12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
      2.2010,  2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
      2.0796,  2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423};
  if (degrees <= kStudent.size()) return kStudent[degrees - 1];
  // The expansion of Cornish and Fisher around the normal quantile, exact to 1e-4 from here on.
  const double n = static_cast<double>(degrees);
  return 1.95996 + 2.3723 / n + 2.8225 / (n * n);
}

}  // namespace rubato::sim
