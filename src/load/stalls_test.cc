// SPDX-License-Identifier: Apache-2.0
#include "load/stalls.h"

#include <gtest/gtest.h>

namespace rubato::load {
namespace {

constexpr Nanos ms(int64_t n) { return Nanos::millis(n); }
constexpr Nanos kTiny = Nanos(1);

TEST(Stalls, touch_what_was_due_shortly_before_and_five_times_their_length_after) {
  Stalls stalls;
  EXPECT_FALSE(stalls.touch(ms(100)));
  stalls.add({ms(100), ms(103), ms(2)});
  EXPECT_FALSE(stalls.touch(ms(90) - kTiny));
  EXPECT_TRUE(stalls.touch(ms(90)));
  EXPECT_TRUE(stalls.touch(ms(101)));
  EXPECT_TRUE(stalls.touch(ms(113)));
  EXPECT_FALSE(stalls.touch(ms(113) + kTiny));
}

TEST(Stalls, of_two_cores_that_overlap_are_joined) {
  Stalls stalls;
  stalls.add({ms(100), ms(110), ms(10)});  // touches 90 .. 160
  stalls.add({ms(109), ms(111), ms(1)});   // 99 .. 116: within
  stalls.add({ms(165), ms(166), ms(1)});   // 155 .. 171: goes on
  for (int64_t at : {90, 117, 160, 161, 171}) EXPECT_TRUE(stalls.touch(ms(at))) << at;
  EXPECT_FALSE(stalls.touch(ms(172)));
  EXPECT_EQ(stalls.count(), 3u);
  EXPECT_EQ(stalls.lost(), ms(12));
}

TEST(Stalls, noticed_late_reach_back_over_earlier_ones) {
  Stalls stalls;
  stalls.add({ms(200), ms(201), ms(1)});
  stalls.add({ms(300), ms(301), ms(1)});
  stalls.add({ms(150), ms(302), ms(152)});
  for (int64_t at : {140, 180, 250, 302}) EXPECT_TRUE(stalls.touch(ms(at))) << at;
  EXPECT_FALSE(stalls.touch(ms(139)));
}

TEST(Stalls, apart_from_each_other_leave_what_lies_between) {
  Stalls stalls;
  for (int64_t at = 1; at < 50; ++at) stalls.add({ms(at * 100), ms(at * 100 + 1), ms(1)});
  for (int64_t at = 1; at < 49; ++at) {
    EXPECT_TRUE(stalls.touch(ms(at * 100)));
    EXPECT_FALSE(stalls.touch(ms(at * 100 + 50)));
  }
}

TEST(Stalls, that_were_forgotten_touch_everything_before_them) {
  Stalls stalls;
  for (size_t i = 1; i <= kMaxTouched + 1; ++i) {
    const Nanos at = ms(static_cast<int64_t>(i) * 100);
    stalls.add({at, at + ms(1), ms(1)});
  }
  EXPECT_TRUE(stalls.touch(ms(150)));
  const Nanos last = ms(static_cast<int64_t>(kMaxTouched) * 100);
  EXPECT_FALSE(stalls.touch(last + ms(50)));
  EXPECT_EQ(stalls.count(), kMaxTouched + 1);
}

}  // namespace
}  // namespace rubato::load
