// SPDX-License-Identifier: Apache-2.0
//
// Exponential and logarithm made of additions, multiplications and divisions only, in a fixed
// order: the same bits on every compiler and machine, which a library's functions do not promise
// (the build forbids fused operations for the same reason). Relative error below 1e-14. Pure.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace rubato::elementary {

inline constexpr double kLn2 = 0.693147180559945309417;

// 2^n. Requires -1022 <= n <= 1023.
constexpr double power_of_two(int n) {
  return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52);
}

// 1/k! and 1/(2k+1), so that no division is left in the series.
inline constexpr auto kInverseFactorials = [] {
  std::array<double, 16> inverse{1};
  for (size_t k = 1; k < inverse.size(); ++k) {
    inverse[k] = inverse[k - 1] / static_cast<double>(k);
  }
  return inverse;
}();
inline constexpr auto kInverseOdds = [] {
  std::array<double, 12> inverse{};
  for (size_t k = 0; k < inverse.size(); ++k) inverse[k] = 1 / static_cast<double>(2 * k + 1);
  return inverse;
}();

// e^x. Requires -700 <= x <= 700.
constexpr double exponential(double x) {
  const double scaled = x / kLn2;
  const int whole = static_cast<int>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
  // ln 2 in two parts, so that the remainder keeps its last bits.
  const double rest = (x - whole * 0.693145751953125) - whole * 1.42860682030941723212e-6;
  double sum = 0;
  for (size_t k = kInverseFactorials.size(); k-- > 0;) sum = sum * rest + kInverseFactorials[k];
  return sum * power_of_two(whole);
}

// ln x. Requires a normal x > 0.
constexpr double logarithm(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int power = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (mantissa > 1.41421356237309504880) mantissa /= 2, ++power;
  // ln m = 2 artanh((m - 1) / (m + 1)), |z| < 0.172.
  const double z = (mantissa - 1) / (mantissa + 1);
  const double square = z * z;
  double sum = 0;
  for (size_t k = kInverseOdds.size(); k-- > 0;) sum = sum * square + kInverseOdds[k];
  return 2 * z * sum + power * kLn2;
}

}  // namespace rubato::elementary
