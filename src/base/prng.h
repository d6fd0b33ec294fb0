// SPDX-License-Identifier: Apache-2.0
//
// Prng: xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2019)
// seeded through SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators", 2014), which has one word. The same seed gives the same numbers on every platform.
// Not thread safe: one per owner.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace rubato {

class SplitMix64 {
 public:
  explicit constexpr SplitMix64(uint64_t seed) : state_(seed) {}

  constexpr uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

// A random word to 0 .. bound-1, uniformly, by multiply-shift; the bias is below 2^-32. Requires
// bound > 0.
constexpr uint32_t scale_down(uint64_t word, uint32_t bound) {
  return static_cast<uint32_t>(((word >> 32) * bound) >> 32);
}

class Prng {
 public:
  explicit constexpr Prng(uint64_t seed) {
    SplitMix64 words(seed);
    for (uint64_t& word : state_) word = words.next();
  }

  constexpr uint64_t next() {
    const uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in 0 .. bound-1. Requires bound > 0.
  constexpr uint32_t below(uint32_t bound) { return scale_down(next(), bound); }

  // Uniform in [0, 1), 53 bits.
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::array<uint64_t, 4> state_{};
};

}  // namespace rubato
