// SPDX-License-Identifier: Apache-2.0
#include "api/framing.h"

#include <gtest/gtest.h>

namespace rubato::api {
namespace {

constexpr size_t kMax = 10;

std::string prefixed(std::string_view payload) {
  return prefix_of(payload.size()) + std::string(payload);
}

TEST(PrefixFraming, length_is_four_bytes_big_endian) {
  EXPECT_EQ(prefix_of(0x01020304), std::string("\x01\x02\x03\x04"));
  EXPECT_EQ(prefix_of(0), std::string(4, '\0'));
}

TEST(PrefixFraming, payload_follows_the_prefix) {
  const std::string bytes = prefixed("hello") + "next";
  const Found found = find_prefixed(bytes, kMax);
  ASSERT_EQ(found.state, Found::State::kComplete);
  EXPECT_EQ(found.length, 9u);
  EXPECT_EQ(bytes.substr(found.offset, found.payload_bytes), "hello");
}

TEST(PrefixFraming, empty_payload_is_a_request) {
  const Found found = find_prefixed(prefixed(""), kMax);
  EXPECT_EQ(found.state, Found::State::kComplete);
  EXPECT_EQ(found.length, 4u);
  EXPECT_EQ(found.payload_bytes, 0u);
}

TEST(PrefixFraming, every_shorter_input_is_incomplete) {
  const std::string whole = prefixed("0123456789");
  for (size_t size = 0; size < whole.size(); ++size) {
    const Found found = find_prefixed(std::string_view(whole).substr(0, size), kMax);
    EXPECT_EQ(found.state, Found::State::kIncomplete);
    EXPECT_EQ(found.length, size < 4 ? 0 : whole.size());
  }
}

TEST(PrefixFraming, announced_excess_is_too_large_at_once) {
  EXPECT_EQ(find_prefixed(prefix_of(kMax + 1), kMax).state, Found::State::kTooLarge);
  EXPECT_EQ(find_prefixed("\xff\xff\xff\xff", kMax).state, Found::State::kTooLarge);
}

TEST(LineFraming, newline_and_carriage_return_are_no_payload) {
  LineFinder finder;
  const Found found = finder.find("hello\r\nnext", kMax);
  ASSERT_EQ(found.state, Found::State::kComplete);
  EXPECT_EQ(found.length, 7u);
  EXPECT_EQ(found.payload_bytes, 5u);
  EXPECT_EQ(finder.find("next\n", kMax).payload_bytes, 4u);
}

TEST(LineFraming, empty_lines_are_requests) {
  LineFinder finder;
  EXPECT_EQ(finder.find("\n", kMax).length, 1u);
  EXPECT_EQ(finder.find("\r\n", kMax).length, 2u);
}

TEST(LineFraming, a_line_may_come_byte_by_byte) {
  LineFinder finder;
  const std::string line = "0123456789\r\n";
  for (size_t size = 0; size < line.size(); ++size) {
    EXPECT_EQ(finder.find(std::string_view(line).substr(0, size), kMax).state,
              Found::State::kIncomplete);
  }
  EXPECT_EQ(finder.find(line, kMax).payload_bytes, kMax);
}

TEST(LineFraming, a_line_over_the_limit_is_too_large_with_and_without_its_end) {
  EXPECT_EQ(LineFinder().find("01234567890\n", kMax).state, Found::State::kTooLarge);
  EXPECT_EQ(LineFinder().find("012345678901", kMax).state, Found::State::kTooLarge);
  EXPECT_EQ(LineFinder().find("0123456789\n", kMax).state, Found::State::kComplete);
}

}  // namespace
}  // namespace rubato::api
