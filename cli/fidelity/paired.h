// SPDX-License-Identifier: Apache-2.0
//
// The same requests on two hosts: the ratio of their percentiles, and how sure it is. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"

namespace rubato::cli {

// Of one request on both hosts.
struct Pair {
  Nanos live;
  Nanos simulated;
};

struct PairedFigure {
  Nanos live;
  Nanos simulated;
  double ratio = 0;    // live / simulated
  double within = 0;   // half of the ratio's 95 % confidence interval

  // The hosts differ by less than `aim`, or by less than may be chance.
  bool agrees(double aim) const;
};

// The percentile, 0 < percent < 100, of pairs in the order of their requests. The interval is that
// of a jackknife over blocks of successive requests, which takes the hosts' common ups and downs
// into account. None: there are too few pairs to say.
std::optional<PairedFigure> compare_percentile(const std::vector<Pair>& pairs, double percent);

}  // namespace rubato::cli
