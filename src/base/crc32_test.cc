// SPDX-License-Identifier: Apache-2.0
#include "base/crc32.h"

#include <gtest/gtest.h>

#include <string>

namespace rubato {
namespace {

template <class Crc>
constexpr uint32_t crc_of(std::string_view bytes) {
  Crc crc;
  crc.add(bytes);
  return crc.value();
}

// The check values of the two in Koopman's and in RFC 3720's tables.
TEST(Crc32, is_what_others_compute) {
  static_assert(crc_of<Crc32Iso>("123456789") == 0xcbf43926);
  static_assert(crc_of<Crc32Castagnoli>("123456789") == 0xe3069283);
  EXPECT_EQ(crc_of<Crc32Iso>(""), 0u);
  EXPECT_EQ(crc_of<Crc32Castagnoli>(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc_of<Crc32Castagnoli>(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(Crc32, is_the_same_in_parts_of_any_length) {
  std::string bytes;
  for (int i = 0; i < 61; ++i) bytes.push_back(static_cast<char>(i * 77));
  const uint32_t whole = crc_of<Crc32Iso>(bytes);
  for (size_t first = 0; first <= bytes.size(); ++first) {
    Crc32Iso parts;
    parts.add(std::string_view(bytes).substr(0, first));
    for (const char byte : std::string_view(bytes).substr(first)) parts.add(byte);
    EXPECT_EQ(parts.value(), whole) << first;
  }
}

}  // namespace
}  // namespace rubato
