// SPDX-License-Identifier: Apache-2.0
//
// Exponential and logarithm made of additions, multiplications and divisions only, in a fixed
// order: the same bits on every compiler and machine, which a library's functions do not promise
// (the build forbids fused operations for the same reason). Relative error below 1e-14. Pure.
#pragma once

#include <bit>
#include <cstdint>

namespace rubato::elementary {

inline constexpr double kLn2 = 0.693147180559945309417;

// 2^n. Requires -1022 <= n <= 1023.
constexpr double power_of_two(int n) {
  return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52);
}

// e^x. Requires -700 <= x <= 700.
constexpr double exponential(double x) {
  const double scaled = x / kLn2;
  const int whole = static_cast<int>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
  // ln 2 in two parts, so that the remainder keeps its last bits.
  const double rest = (x - whole * 0.693145751953125) - whole * 1.42860682030941723212e-6;
  double sum = 1;
  for (int k = 18; k >= 1; --k) sum = 1 + rest / k * sum;
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
  for (int k = 23; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * z * sum + power * kLn2;
}

}  // namespace rubato::elementary
