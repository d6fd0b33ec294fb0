// SPDX-License-Identifier: Apache-2.0
#include "base/siphash.h"

#include <gtest/gtest.h>

#include <string>

namespace rubato {
namespace {

// Key 00 01 .. 0f; the message of n bytes is 00 01 .. n-1.
constexpr SipHash kHash({0x0706050403020100, 0x0f0e0d0c0b0a0908});

std::string message(size_t size) {
  std::string bytes;
  while (bytes.size() < size) bytes.push_back(static_cast<char>(bytes.size()));
  return bytes;
}

// The first and the fifteenth are in the paper's appendix and reference vectors.
TEST(SipHash, gives_the_reference_values) {
  EXPECT_EQ(kHash(message(0)), 0x726fdb47dd0e0e31u);
  EXPECT_EQ(kHash(message(15)), 0xa129ca6149be45e5u);
}

TEST(SipHash, depends_on_every_byte_and_on_the_key) {
  const std::string text = message(22);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_NE(kHash(other), kHash(text)) << i;
  }
  EXPECT_NE(SipHash({1, 2})(text), kHash(text));
}

}  // namespace
}  // namespace rubato
