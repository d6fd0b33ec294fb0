// SPDX-License-Identifier: Apache-2.0
#include "kv_server/text/number.h"

#include <gtest/gtest.h>

#include <string>

namespace rubato::kv {
namespace {

TEST(Number, integers_have_one_form) {
  int64_t value = 7;
  EXPECT_TRUE(parse_integer("0", value));
  EXPECT_EQ(value, 0);
  EXPECT_TRUE(parse_integer("-9223372036854775808", value));
  EXPECT_EQ(value, INT64_MIN);
  EXPECT_TRUE(parse_integer("9223372036854775807", value));
  for (const char* bad : {"", "-", "+1", "01", "-0", " 1", "1 ", "9223372036854775808",
                          "-9223372036854775809", "1a", "18446744073709551617"}) {
    EXPECT_FALSE(parse_integer(bad, value)) << bad;
  }
}

std::string float_text(long double value) {
  char text[kMaxFloatBytes];
  return {text, write_float(text, value)};
}

TEST(Number, floats_are_written_without_trailing_zeros) {
  EXPECT_EQ(float_text(10.5L), "10.5");
  EXPECT_EQ(float_text(3.0L), "3");
  EXPECT_EQ(float_text(-0.0L), "0");
  EXPECT_EQ(float_text(5.0e3L), "5000");
}

TEST(Number, floats_are_read_whole_or_not_at_all) {
  long double value = 0;
  EXPECT_TRUE(parse_float("1e3", value));
  EXPECT_TRUE(parse_float("-inf", value));
  for (const char* bad : {"", " 1", "1 ", "nan", "1x", "1e999999"}) {
    EXPECT_FALSE(parse_float(bad, value)) << bad;
  }
}

TEST(Number, memory_has_units) {
  uint64_t bytes = 0;
  EXPECT_TRUE(parse_memory("100", bytes));
  EXPECT_EQ(bytes, 100U);
  EXPECT_TRUE(parse_memory("2MB", bytes));
  EXPECT_EQ(bytes, 2U * 1024 * 1024);
  EXPECT_TRUE(parse_memory("3k", bytes));
  EXPECT_EQ(bytes, 3000U);
  EXPECT_FALSE(parse_memory("1tb", bytes));
  EXPECT_FALSE(parse_memory("mb", bytes));
  EXPECT_FALSE(parse_memory("99999999999999999999gb", bytes));
}

}  // namespace
}  // namespace rubato::kv
