// SPDX-License-Identifier: Apache-2.0
#include "xdp/ring_arrivals.h"

#include <gtest/gtest.h>

namespace rubato::xdp {
namespace {

TEST(RingArrivals, a_frame_counts_from_the_look_that_saw_it_first) {
  RingArrivals arrivals;
  arrivals.look(2, Instant(10));
  EXPECT_EQ(arrivals.seen_first(0, Instant(10)), Instant(10));
  arrivals.look(5, Instant(20));
  arrivals.look(5, Instant(30));
  arrivals.look(6, Instant(40));
  EXPECT_EQ(arrivals.seen_first(1, Instant(40)), Instant(10));
  for (uint32_t frame : {2u, 3u, 4u}) {
    EXPECT_EQ(arrivals.seen_first(frame, Instant(40)), Instant(20)) << frame;
  }
  EXPECT_EQ(arrivals.seen_first(5, Instant(50)), Instant(40));
  EXPECT_EQ(arrivals.seen_first(6, Instant(50)), Instant(50));  // came after the look
  arrivals.look(8, Instant(60));
  EXPECT_EQ(arrivals.seen_first(7, Instant(60)), Instant(60));
}

TEST(RingArrivals, frames_go_round) {
  RingArrivals arrivals;
  arrivals.look(UINT32_MAX, Instant(10));
  arrivals.look(3, Instant(20));
  EXPECT_EQ(arrivals.seen_first(UINT32_MAX - 1, Instant(20)), Instant(10));
  EXPECT_EQ(arrivals.seen_first(UINT32_MAX, Instant(20)), Instant(20));
  EXPECT_EQ(arrivals.seen_first(2, Instant(20)), Instant(20));
}

TEST(RingArrivals, with_more_looks_than_it_keeps_a_frame_is_never_too_early) {
  RingArrivals arrivals;
  for (uint32_t i = 1; i <= 1000; ++i) arrivals.look(i, Instant(i));
  for (uint32_t frame = 0; frame < 1000; ++frame) {
    const Instant seen = arrivals.seen_first(frame, Instant(1000));
    EXPECT_GE(seen, Instant(frame + 1));
    EXPECT_LE(seen, Instant(1000));
  }
  EXPECT_EQ(arrivals.seen_first(1000, Instant(2000)), Instant(2000));
}

}  // namespace
}  // namespace rubato::xdp
