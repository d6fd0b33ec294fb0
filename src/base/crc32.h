// SPDX-License-Identifier: Apache-2.0
//
// Crc32: the cyclic redundancy check of 32 bits (ISO 3309, and with Castagnoli's polynomial) of
// bytes as they come, eight at a time where there are as many: Kounavis and Berry, ISCC 2005,
// section 3. Against accidents only: whoever forges bytes can forge it too. A plain value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rubato {

// Of that polynomial, the least bit for the highest power.
template <uint32_t kPolynomial>
class Crc32 {
 public:
  constexpr void add(char byte) { crc_ = (crc_ >> 8) ^ kTables[0][(crc_ ^ number(byte)) & 0xff]; }
  constexpr void add(std::string_view bytes) {
    for (; bytes.size() >= kAtOnce; bytes.remove_prefix(kAtOnce)) add_eight(bytes);
    for (const char byte : bytes) add(byte);
  }
  constexpr uint32_t value() const { return ~crc_; }

 private:
  static constexpr size_t kAtOnce = 8;
  using Tables = std::array<std::array<uint32_t, 256>, kAtOnce>;

  static constexpr uint32_t number(char byte) { return static_cast<uint8_t>(byte); }
  // Of each byte with as many zeros behind it as there are tables before.
  static constexpr Tables make_tables() {
    Tables tables{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t rest = byte;
      for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? kPolynomial : 0);
      tables[0][byte] = rest;
    }
    for (size_t zeros = 1; zeros < kAtOnce; ++zeros) {
      for (size_t byte = 0; byte < 256; ++byte) {
        const uint32_t rest = tables[zeros - 1][byte];
        tables[zeros][byte] = (rest >> 8) ^ tables[0][rest & 0xff];
      }
    }
    return tables;
  }
  static constexpr uint32_t word(std::string_view bytes, size_t at) {
    return number(bytes[at]) | number(bytes[at + 1]) << 8 | number(bytes[at + 2]) << 16 |
           number(bytes[at + 3]) << 24;
  }
  constexpr void add_eight(std::string_view bytes) {
    const auto& t = kTables;
    const uint32_t first = crc_ ^ word(bytes, 0), second = word(bytes, 4);
    crc_ = t[7][first & 0xff] ^ t[6][(first >> 8) & 0xff] ^ t[5][(first >> 16) & 0xff] ^
           t[4][first >> 24] ^ t[3][second & 0xff] ^ t[2][(second >> 8) & 0xff] ^
           t[1][(second >> 16) & 0xff] ^ t[0][second >> 24];
  }

  static constexpr Tables kTables = make_tables();

  uint32_t crc_ = ~uint32_t{0};
};

using Crc32Iso = Crc32<0xedb88320>;         // zlib's and Ethernet's
using Crc32Castagnoli = Crc32<0x82f63b78>;  // RocksDB's and iSCSI's

}  // namespace rubato
