// SPDX-License-Identifier: Apache-2.0
//
// ServiceTime: how long the requests of one type take, by one of
//
//   LENGTH                   always the same (bare numbers are microseconds)
//   exp(MEAN)                exponential
//   uniform(LOW,HIGH)        uniform
//   lognormal(MEAN,SIGMA)    SIGMA of the logarithm, 0 to 5
//   pareto(MEAN,ALPHA)       bounded Pareto of exponent ALPHA, 0.1 to 100, over four decades
//
// A plain value; sampling is deterministic for a seed on every platform. Draws are rounded to the
// nearest nanosecond, so that means are kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/prng.h"
#include "base/time.h"

namespace rubato {

struct ServiceTime {
  enum class Shape : uint8_t { kFixed, kExponential, kUniform, kLognormal, kPareto };

  static constexpr Nanos kLongest = Nanos::seconds(1'000'000);

  Shape shape = Shape::kFixed;
  Nanos mean;
  double spread = 0;  // kUniform: ns from the mean to an end; else sigma or alpha
  double scale = 1;   // over the mean: median of kLognormal, least value of kPareto (scale_of)

  // A Pareto distribution ends at this multiple of its least value, so that it has all moments.
  static constexpr double kParetoSpan = 1e4;
  static double scale_of(Shape shape, double spread);

  // From 1 ns to kLongest.
  Nanos sample(Prng& prng) const {
    if (shape == Shape::kFixed) [[likely]]
      return mean;
    return draw(prng);
  }

 private:
  Nanos draw(Prng& prng) const;
};

// One of the texts above. Nothing if `text` is anything else or below 1 ns.
std::optional<ServiceTime> parse_service(std::string_view text);

}  // namespace rubato
