// SPDX-License-Identifier: Apache-2.0
//
// Hash of a key under a secret seed, so that an attacker cannot choose keys that collide. The core
// is the folded 64x64 -> 128 bit multiplication. Pure. All 64 bits are used: the top bits choose
// the shard and the bucket, and their order is the order of SCAN.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace rubato::kv {

namespace hash_detail {

__extension__ typedef unsigned __int128 Wide;

inline uint64_t fold(uint64_t a, uint64_t b) {
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

template <class Word>
inline uint64_t load(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// Odd constants with balanced bits: fractional parts of the square roots of 2, 3, 5.
inline constexpr uint64_t kA = 0x6a09e667f3bcc909u;
inline constexpr uint64_t kB = 0xbb67ae8584caa73bu;
inline constexpr uint64_t kC = 0x3c6ef372fe94f82bu;

}  // namespace hash_detail

inline uint64_t hash_key(std::string_view key, uint64_t seed) {
  using namespace hash_detail;
  const char* at = key.data();
  size_t left = key.size();
  uint64_t state = seed ^ kC;
  while (left > 16) {
    state = fold(load<uint64_t>(at) ^ kA ^ state, load<uint64_t>(at + 8) ^ seed ^ kB);
    at += 16;
    left -= 16;
  }
  uint64_t a = 0;
  uint64_t b = 0;
  if (left >= 8) {
    a = load<uint64_t>(at);
    b = load<uint64_t>(at + left - 8);
  } else if (left >= 4) {
    a = load<uint32_t>(at);
    b = load<uint32_t>(at + left - 4);
  } else if (left > 0) {
    a = static_cast<uint8_t>(at[0]);
    b = (load<uint8_t>(at + left / 2) << 8) | load<uint8_t>(at + left - 1);
  }
  const uint64_t mixed = fold(a ^ kA ^ state, b ^ kB ^ seed);
  return fold(mixed ^ kC, kA ^ static_cast<uint64_t>(key.size()) ^ (seed << 1));
}

}  // namespace rubato::kv
