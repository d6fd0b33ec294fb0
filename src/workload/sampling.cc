// SPDX-License-Identifier: Apache-2.0
#include "workload/sampling.h"

#include <cmath>

namespace rubato {
namespace internal {
namespace {

constexpr double kDrawStep = 0x1.0p-53;

constexpr Ziggurat make_ziggurat() {
  Ziggurat z{};
  // The lowest layer is as wide as its area, tail included, needs.
  z.x[0] = Ziggurat::kArea / elementary::exponential(-Ziggurat::kTail);
  z.x[1] = Ziggurat::kTail;
  for (size_t i = 2; i < Ziggurat::kLayers; ++i) {
    const double height = elementary::exponential(-z.x[i - 1]);
    z.x[i] = -elementary::logarithm(Ziggurat::kArea / z.x[i - 1] + height);
  }
  for (size_t i = 0; i <= Ziggurat::kLayers; ++i) z.y[i] = elementary::exponential(-z.x[i]);
  for (size_t i = 0; i < Ziggurat::kLayers; ++i) {
    z.inside[i] = static_cast<uint64_t>(z.x[i + 1] / z.x[i] / kDrawStep);
    z.step[i] = z.x[i] * kDrawStep;
  }
  return z;
}

}  // namespace

constinit const Ziggurat kZiggurat = make_ziggurat();

double sample_exponential_outside(Prng& prng, uint64_t bits) {
  const size_t layer = bits % Ziggurat::kLayers;
  // The exponential forgets: beyond the start of the tail it begins anew.
  if (layer == 0) return Ziggurat::kTail + sample_exponential(prng);
  const double x = static_cast<double>(bits >> 11) * kZiggurat.step[layer];
  const double low = kZiggurat.y[layer];
  const double high = kZiggurat.y[layer + 1];
  if (low + prng.uniform() * (high - low) < elementary::exponential(-x)) return x;
  return sample_exponential(prng);
}

}  // namespace internal

double sample_normal(Prng& prng) {
  // Marsaglia's polar method (1964). std::sqrt is correctly rounded everywhere (IEEE 754).
  while (true) {
    const double a = 2 * prng.uniform() - 1;
    const double b = 2 * prng.uniform() - 1;
    const double square = a * a + b * b;
    if (square >= 1 || square < 1e-300) continue;
    return a * std::sqrt(-2 * elementary::logarithm(square) / square);
  }
}

AliasChoice::AliasChoice(const std::vector<double>& weights) {
  double total = 0;
  for (double w : weights) total += w;
  RUBATO_CHECK(total > 0);
  const size_t count = weights.size();
  std::vector<double> fill;  // of cells of size 1
  std::vector<uint32_t> poor, rich;
  for (uint32_t i = 0; i < count; ++i) {
    fill.push_back(weights[i] * static_cast<double>(count) / total);
    (fill[i] < 1 ? poor : rich).push_back(i);
    cells_.push_back({UINT32_MAX, i});  // a full cell is its own index's, whatever is drawn
  }
  while (!poor.empty() && !rich.empty()) {
    const uint32_t taker = poor.back();
    const uint32_t giver = rich.back();
    poor.pop_back();
    const double own = std::min(fill[taker] * 0x1.0p32, static_cast<double>(UINT32_MAX));
    cells_[taker] = {static_cast<uint32_t>(own), giver};
    fill[giver] = (fill[giver] + fill[taker]) - 1;
    if (fill[giver] < 1) rich.pop_back(), poor.push_back(giver);
  }
}

}  // namespace rubato
