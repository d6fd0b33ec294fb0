// SPDX-License-Identifier: Apache-2.0
#include "workload/duration.h"

#include <gtest/gtest.h>

namespace rubato {
namespace {

TEST(Duration, units_are_understood) {
  EXPECT_EQ(parse_duration("850ns"), Nanos(850));
  EXPECT_EQ(parse_duration("0.5us"), Nanos(500));
  EXPECT_EQ(parse_duration("2ms"), Nanos::millis(2));
  EXPECT_EQ(parse_duration("1.5s"), Nanos::millis(1500));
  EXPECT_EQ(parse_duration("1e-3s"), Nanos::millis(1));
}

TEST(Duration, a_bare_number_is_in_the_unit_asked_for) {
  EXPECT_EQ(parse_duration("10"), Nanos::micros(10));
  EXPECT_EQ(parse_duration("10", Nanos::seconds(1)), Nanos::seconds(10));
}

TEST(Duration, picoseconds_are_understood_and_have_a_unit) {
  EXPECT_EQ(parse_picos("8.24ns"), Picos(8240));
  EXPECT_EQ(parse_picos("0.4us"), Picos(Nanos(400)));
  EXPECT_EQ(parse_picos("1s"), Picos(Nanos::seconds(1)));
  for (const char* bad : {"", "8", "ns", "-1ns", "1.001s"}) EXPECT_FALSE(parse_picos(bad)) << bad;
}

TEST(Duration, anything_else_is_refused) {
  for (const char* bad : {"", "us", "-1us", "1 us", "1m", "nan", "inf", "1eus", "0x1us", "-0",
                          "99999999999s", "1us1"}) {
    EXPECT_FALSE(parse_duration(bad)) << bad;
  }
}

TEST(Number, takes_decimals_with_or_without_an_exponent) {
  EXPECT_EQ(parse_number("0.25"), 0.25);
  EXPECT_EQ(parse_number("8.4e-05"), 8.4e-05);
  EXPECT_EQ(parse_number("1E3"), 1000);
  for (const char* bad : {"", "-1", "+1", "1.2.3", "x", "1x", "1e", "e1", "1e-", "1e999", "nan",
                          "infinity", "0x1p3"}) {
    EXPECT_FALSE(parse_number(bad)) << bad;
  }
}

TEST(Trimmed, drops_blanks_at_both_ends) {
  EXPECT_EQ(trimmed(" \ta b\r\n"), "a b");
  EXPECT_EQ(trimmed("  "), "");
}

}  // namespace
}  // namespace rubato
