// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "loops.h"

namespace rubato::loops::RUBATO_LOOPS_VARIANT {
namespace {

constexpr size_t kMany = 16384;
constexpr int kSide = 96;

template <class T>
std::vector<T> numbers(size_t count, uint64_t seed) {
  Sequence sequence(seed);
  std::vector<T> made(count);
  for (T& each : made) each = static_cast<T>(sequence.next() % 1000 + 1);
  return made;
}

uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }

uint64_t sum_integers(uint32_t rounds) {
  static const std::vector<int64_t> values = numbers<int64_t>(kMany, 1);
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    int64_t sum = round;
    for (const int64_t value : values) sum += value;
    hash = mix(hash, static_cast<uint64_t>(sum));
  }
  return hash;
}

uint64_t sum_doubles(uint32_t rounds) {
  static const std::vector<double> values = numbers<double>(kMany, 2);
  double sum = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (const double value : values) sum += value;
  }
  return bits(sum);
}

uint64_t dot_product(uint32_t rounds) {
  static const std::vector<int32_t> a = numbers<int32_t>(kMany, 3);
  static const std::vector<int32_t> b = numbers<int32_t>(kMany, 4);
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    int32_t sum = static_cast<int32_t>(round);
    for (size_t i = 0; i < kMany; ++i) sum += a[i] * b[i];
    hash = mix(hash, static_cast<uint64_t>(sum));
  }
  return hash;
}

uint64_t scale_and_add(uint32_t rounds) {
  static const std::vector<float> x = numbers<float>(kMany, 5);
  static std::vector<float> y(kMany);
  std::fill(y.begin(), y.end(), 0.0f);
  for (uint32_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < kMany; ++i) y[i] = 0.5f * y[i] + x[i];
  }
  return bits(static_cast<double>(y[kMany / 2]) + static_cast<double>(y[1]));
}

uint64_t prefix_sums(uint32_t rounds) {
  static std::vector<uint32_t> values = numbers<uint32_t>(kMany, 6);
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    static std::vector<uint32_t> sums(kMany);
    uint32_t sum = round;
    for (size_t i = 0; i < kMany; ++i) sums[i] = sum += values[i];
    hash = mix(hash, sums[round % kMany]);
  }
  return hash;
}

template <bool kRowWise>
uint64_t multiply_matrices(uint32_t rounds) {
  static const std::vector<double> a = numbers<double>(kSide * kSide, 7);
  static const std::vector<double> b = numbers<double>(kSide * kSide, 8);
  static std::vector<double> c(kSide * kSide);
  const volatile int side_now = kSide;  // known at run time only, as in a library
  const int side = side_now;
  for (uint32_t round = 0; round < rounds; ++round) {
    std::fill(c.begin(), c.end(), round);
    for (int i = 0; i < side; ++i) {
      for (int j = 0; j < side; ++j) {
        for (int k = 0; k < side; ++k) {
          if constexpr (kRowWise) {
            c[static_cast<size_t>(i * side + k)] +=
                a[static_cast<size_t>(i * side + j)] * b[static_cast<size_t>(j * side + k)];
          } else {
            c[static_cast<size_t>(i * side + j)] +=
                a[static_cast<size_t>(i * side + k)] * b[static_cast<size_t>(k * side + j)];
          }
        }
      }
    }
  }
  return bits(c[17]) ^ bits(c[kSide * kSide - 1]);
}

uint64_t smooth(uint32_t rounds) {
  static std::vector<float> from(kMany);
  static std::vector<float> to(kMany);
  from = numbers<float>(kMany, 9);
  for (uint32_t round = 0; round < rounds; ++round) {
    for (size_t i = 1; i + 1 < kMany; ++i) to[i] = (from[i - 1] + 2 * from[i] + from[i + 1]) / 4;
    std::swap(from, to);
  }
  return bits(static_cast<double>(from[kMany / 3]));
}

uint64_t mandelbrot(uint32_t rounds) {
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < 64; ++i) {
      const double cr = -2 + 0.045 * i, ci = 0.3 + 0.01 * (round % 8);
      double zr = 0, zi = 0;
      int steps = 0;
      while (zr * zr + zi * zi < 4 && steps < 200) {
        const double next = zr * zr - zi * zi + cr;
        zi = 2 * zr * zi + ci;
        zr = next;
        ++steps;
      }
      hash = mix(hash, static_cast<uint64_t>(steps));
    }
  }
  return hash;
}

uint64_t bodies(uint32_t rounds) {
  struct Body {
    double x, y, z, vx, vy, vz, mass;
  };
  std::array<Body, 5> all;
  Sequence sequence(10);
  const auto draw = [&] { return static_cast<double>(sequence.next() % 1000) / 100 + 0.1; };
  for (Body& each : all) each = {draw(), draw(), draw(), 0, 0, 0, draw()};
  for (uint32_t step = 0; step < rounds * 50; ++step) {
    for (size_t i = 0; i < all.size(); ++i) {
      for (size_t j = i + 1; j < all.size(); ++j) {
        Body &a = all[i], &b = all[j];
        const double dx = a.x - b.x, dy = a.y - b.y, dz = a.z - b.z;
        const double distance = dx * dx + dy * dy + dz * dz + 0.01;
        const double pull = 0.0001 / (distance * std::sqrt(distance));
        a.vx -= dx * b.mass * pull, a.vy -= dy * b.mass * pull, a.vz -= dz * b.mass * pull;
        b.vx += dx * a.mass * pull, b.vy += dy * a.mass * pull, b.vz += dz * a.mass * pull;
      }
    }
    for (Body& each : all) each.x += each.vx, each.y += each.vy, each.z += each.vz;
  }
  return bits(all[0].x) ^ bits(all[4].z);
}

uint64_t divide(uint32_t rounds) {
  static const std::vector<uint64_t> values = numbers<uint64_t>(2048, 11);
  uint64_t sum = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (const uint64_t value : values) sum += (sum + 123456789012345) / value;
  }
  return sum;
}

uint64_t common_divisors(uint32_t rounds) {
  static const std::vector<uint32_t> values = numbers<uint32_t>(256, 12);
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (size_t i = 1; i < values.size(); ++i) {
      uint32_t a = values[i] * 7919 + round, b = values[i - 1] * 104729 + round;
      while (b != 0) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
      }
      hash = mix(hash, a);
    }
  }
  return hash;
}

uint64_t collatz(uint32_t rounds) {
  uint64_t steps = 0;
  for (uint64_t start = 1; start < uint64_t{rounds} * 64; ++start) {
    for (uint64_t n = start % 4096 + 1; n != 1; n = n % 2 == 0 ? n / 2 : 3 * n + 1) ++steps;
  }
  return steps;
}

uint64_t sieve(uint32_t rounds) {
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    static std::array<uint8_t, 8192> composite;
    composite.fill(0);
    uint64_t primes = 0;
    for (size_t i = 2; i < composite.size(); ++i) {
      if (composite[i] != 0) continue;
      ++primes;
      for (size_t j = i * i; j < composite.size(); j += i) composite[j] = 1;
    }
    hash = mix(hash, primes);
  }
  return hash;
}

uint64_t powers_modulo(uint32_t rounds) {
  constexpr uint64_t kPrime = 1'000'000'007;
  uint64_t hash = 0;
  for (uint32_t i = 0; i < rounds * 32; ++i) {
    uint64_t result = 1, base = i + 2;
    for (uint64_t exponent = kPrime - 2; exponent != 0; exponent >>= 1) {
      if (exponent & 1) result = result * base % kPrime;
      base = base * base % kPrime;
    }
    hash = mix(hash, result);
  }
  return hash;
}

uint64_t count_bits(uint32_t rounds) {
  static const std::vector<uint64_t> values = numbers<uint64_t>(kMany, 13);
  uint64_t sum = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (const uint64_t value : values) sum += static_cast<uint64_t>(std::popcount(value ^ round));
  }
  return sum;
}

uint64_t largest(uint32_t rounds) {
  static std::vector<int32_t> values = numbers<int32_t>(kMany, 14);
  uint64_t hash = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    int32_t most = 0;
    for (const int32_t value : values) most = std::max(most, value);
    values[round % kMany] = most + 1;
    hash = mix(hash, static_cast<uint64_t>(most));
    values[round % kMany] = most;
  }
  return hash;
}

constexpr Kernel kKernels[] = {
    {"sum_integers", sum_integers}, {"sum_doubles", sum_doubles},
    {"dot_product", dot_product}, {"scale_and_add", scale_and_add},
    {"prefix_sums", prefix_sums}, {"matrix_dot", multiply_matrices<false>},
    {"matrix_rows", multiply_matrices<true>}, {"smooth", smooth},
    {"mandelbrot", mandelbrot}, {"bodies", bodies},
    {"divide", divide}, {"common_divisors", common_divisors},
    {"collatz", collatz}, {"sieve", sieve},
    {"powers_modulo", powers_modulo}, {"count_bits", count_bits},
    {"largest", largest},
};

}  // namespace

std::span<const Kernel> numeric_kernels() { return kKernels; }

}  // namespace rubato::loops::RUBATO_LOOPS_VARIANT
