// SPDX-License-Identifier: Apache-2.0
//
// SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT 2012): a short hash that nobody without the key
// can guess or steer. Pure.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rubato {

class SipHash {
 public:
  using Key = std::array<uint64_t, 2>;

  explicit constexpr SipHash(Key key)
      : v_{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
           key[1] ^ 0x7465646279746573} {}

  constexpr uint64_t operator()(std::string_view bytes) const {
    SipHash state = *this;
    const size_t whole = bytes.size() / 8 * 8;
    for (size_t at = 0; at < whole; at += 8) state.take(word(bytes.substr(at, 8)));
    state.take(word(bytes.substr(whole)) | uint64_t{bytes.size() & 0xff} << 56);
    state.v_[2] ^= 0xff;
    for (int i = 0; i < 4; ++i) state.round();
    return state.v_[0] ^ state.v_[1] ^ state.v_[2] ^ state.v_[3];
  }

 private:
  // Little-endian, of at most eight bytes.
  static constexpr uint64_t word(std::string_view bytes) {
    uint64_t value = 0;
    for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
    return value;
  }
  constexpr void take(uint64_t word) {
    v_[3] ^= word;
    round();
    round();
    v_[0] ^= word;
  }
  constexpr void round() {
    v_[0] += v_[1];
    v_[1] = std::rotl(v_[1], 13) ^ v_[0];
    v_[0] = std::rotl(v_[0], 32);
    v_[2] += v_[3];
    v_[3] = std::rotl(v_[3], 16) ^ v_[2];
    v_[0] += v_[3];
    v_[3] = std::rotl(v_[3], 21) ^ v_[0];
    v_[2] += v_[1];
    v_[1] = std::rotl(v_[1], 17) ^ v_[2];
    v_[2] = std::rotl(v_[2], 32);
  }

  std::array<uint64_t, 4> v_;
};

}  // namespace rubato
