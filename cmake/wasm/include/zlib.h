// SPDX-License-Identifier: Apache-2.0
//
// crc32() of zlib, whose library Debian has for the host alone: ISO 3309's polynomial, reflected.
#pragma once

#include <array>
#include <cstdint>

using Bytef = unsigned char;
using uInt = unsigned;
using uLong = unsigned long;

inline uLong crc32(uLong before, const Bytef* data, uInt size) {
  static constexpr std::array<uint32_t, 256> kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t rest = byte;
      for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? 0xEDB88320u : 0u);
      table[byte] = rest;
    }
    return table;
  }();
  uint32_t sum = ~static_cast<uint32_t>(before);
  for (uInt i = 0; i < size; ++i) sum = (sum >> 8) ^ kTable[(sum ^ data[i]) & 0xFF];
  return ~sum;
}
