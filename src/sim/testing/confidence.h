// SPDX-License-Identifier: Apache-2.0
//
// Figures of several seeds against an exact value. A figure agrees if the exact value lies in its
// interval of 99.9 % confidence (Student, over the seeds), and it proves something only if that
// interval is narrow, so the width is bounded too. Seeds are fixed: a test that passes, passes
// always.
// For GoogleTest programs, single-threaded.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"

namespace rubato::sim {

struct Interval {
  double mean = 0;
  double half = 0;  // of 99.9 % confidence
};

inline Interval interval_of(const std::vector<double>& samples) {
  // The 99.95 % quantiles of Student's t distribution for 3 to 15 degrees of freedom.
  constexpr std::array kStudent = {12.924, 8.610, 6.869, 5.959, 5.408, 5.041, 4.781,
                                   4.587,  4.437, 4.318, 4.221, 4.140, 4.073};
  constexpr size_t kFewest = 4;
  RUBATO_CHECK(samples.size() >= kFewest && samples.size() < kFewest + kStudent.size());
  const double n = static_cast<double>(samples.size());
  double mean = 0, squares = 0;
  for (const double x : samples) mean += x / n;
  for (const double x : samples) squares += (x - mean) * (x - mean);
  return {mean, kStudent[samples.size() - kFewest] * std::sqrt(squares / (n - 1) / n)};
}

// The deviation that is allowed, as shares of the exact value.
struct Tolerance {
  double widest;    // half-width of the interval
  double bias = 0;  // known differences: buckets, finite quanta
};

inline void expect_agrees(const std::string& what, const std::vector<double>& samples, double exact,
                          Tolerance tolerance) {
  const Interval interval = interval_of(samples);
  std::printf("%-56s theory %10.5g  simulated %10.5g +- %4.2f %%  off by %+5.2f %%\n", what.c_str(),
              exact, interval.mean, 100 * interval.half / exact,
              100 * (interval.mean / exact - 1));
  EXPECT_LE(interval.half, tolerance.widest * exact) << what << ": the interval proves too little";
  EXPECT_NEAR(interval.mean, exact, interval.half + tolerance.bias * exact) << what;
}

// Figures by name, one sample per seed.
using Figures = std::map<std::string, double>;

// Calls figures_of(seed) once per seed and gathers each figure's samples. Seeds lie apart, for a
// generator may use its neighbours for other streams.
template <class F>
std::map<std::string, std::vector<double>> over_seeds(uint32_t seeds, F&& figures_of) {
  constexpr uint64_t kApart = 1000;
  std::map<std::string, std::vector<double>> samples;
  for (uint32_t i = 1; i <= seeds; ++i) {
    for (const auto& [name, figure] : figures_of(i * kApart)) samples[name].push_back(figure);
  }
  return samples;
}

}  // namespace rubato::sim
