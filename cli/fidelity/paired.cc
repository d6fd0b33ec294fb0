// SPDX-License-Identifier: Apache-2.0
#include "cli/fidelity/paired.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace rubato::cli {
namespace {

constexpr size_t kBlocks = 20;
constexpr double kStudent = 2.093;   // 97.5 % of Student's t with kBlocks - 1 degrees of freedom
constexpr double kBeyondLeast = 40;  // pairs beyond the percentile, two in each block

Nanos percentile(std::vector<Nanos>& values, double percent) {
  const auto rank = std::ceil(percent / 100 * static_cast<double>(values.size()));
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(std::max(rank, 1.0)) - 1;
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

// Of the pairs outside [from, to).
PairedFigure figure(const std::vector<Pair>& pairs, size_t from, size_t to, double percent) {
  std::vector<Nanos> live, simulated;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (i >= from && i < to) continue;
    live.push_back(pairs[i].live);
    simulated.push_back(pairs[i].simulated);
  }
  PairedFigure result{percentile(live, percent), percentile(simulated, percent)};
  result.ratio = static_cast<double>(result.live.count()) /
                 static_cast<double>(result.simulated.count());
  return result;
}

}  // namespace

bool PairedFigure::agrees(double aim) const {
  return std::abs(ratio - 1) <= std::max(aim, within);
}

std::optional<PairedFigure> compare_percentile(const std::vector<Pair>& pairs, double percent) {
  const double beyond = (1 - percent / 100) * static_cast<double>(pairs.size());
  if (beyond < kBeyondLeast) return {};
  PairedFigure all = figure(pairs, 0, 0, percent);
  double sum = 0;
  double squares = 0;
  for (size_t block = 0; block < kBlocks; ++block) {
    const size_t from = pairs.size() * block / kBlocks;
    const size_t to = pairs.size() * (block + 1) / kBlocks;
    const double ratio = figure(pairs, from, to, percent).ratio;
    sum += ratio;
    squares += ratio * ratio;
  }
  const double mean = sum / kBlocks;
  const double variance = (kBlocks - 1) * std::max(0.0, squares / kBlocks - mean * mean);
  all.within = kStudent * std::sqrt(variance);
  return all;
}

}  // namespace rubato::cli
