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
// or by a histogram, which has no text of its own: a bucket by its count, uniform within.
//
// A plain value; sampling is deterministic for a seed on every platform. Draws are rounded to the
// nearest nanosecond, so that means are kept.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "workload/sampling.h"

namespace rubato {

// `count` service times t were low <= t < high.
struct ServiceBucket {
  Nanos low, high;
  uint64_t count = 0;
};

// Requires buckets of low < high <= ServiceTime::kLongest of which one or more hold something.
// Immutable, and so shared by all copies of a ServiceTime.
class ServiceHistogram {
 public:
  explicit ServiceHistogram(std::vector<ServiceBucket> all);
  double mean_ns() const;
  Nanos sample(Prng& prng) const;

 private:
  std::vector<ServiceBucket> buckets_;
  AliasChoice choice_;
};

struct ServiceTime {
  enum class Shape : uint8_t { kFixed, kExponential, kUniform, kLognormal, kPareto, kHistogram };

  static constexpr Nanos kLongest = Nanos::seconds(1'000'000);

  Shape shape = Shape::kFixed;
  Nanos mean;
  double spread = 0;  // kUniform: ns from the mean to an end; else sigma or alpha
  double scale = 1;   // over the mean: median of kLognormal, least value of kPareto (scale_of)
  std::shared_ptr<const ServiceHistogram> histogram = nullptr;  // of kHistogram

  // A Pareto distribution ends at this multiple of its least value, so that it has all moments.
  static constexpr double kParetoSpan = 1e4;
  static double scale_of(Shape shape, double spread);

  // From 1 ns to kLongest.
  Nanos sample(Prng& prng) const {
    if (shape == Shape::kFixed) return mean;
    if (shape == Shape::kExponential) {
      return rounded(static_cast<double>(mean.count()) * sample_exponential(prng));
    }
    return draw(prng);
  }

 private:
  // To the nearest nanosecond, so that the mean is kept.
  static Nanos rounded(double ns) {
    const double longest = static_cast<double>(kLongest.count());
    return Nanos(std::max<int64_t>(1, static_cast<int64_t>(std::min(ns, longest) + 0.5)));
  }
  Nanos draw(Prng& prng) const;
};

// Service times as they were counted; requires what ServiceHistogram does.
ServiceTime service_of(std::vector<ServiceBucket> buckets);

// One of the texts above. Nothing if `text` is anything else or below 1 ns.
std::optional<ServiceTime> parse_service(std::string_view text);

}  // namespace rubato
