// SPDX-License-Identifier: Apache-2.0
#include "load/undisturbed.h"

#include <gtest/gtest.h>

namespace rubato::load {
namespace {

constexpr Nanos ms(int64_t n) { return Nanos::millis(n); }

TEST(Undisturbed, waits_until_a_stall_must_be_known) {
  Undisturbed latencies(1);
  latencies.replied(0, ms(100), ms(101));
  latencies.settle(ms(1110));
  EXPECT_EQ(latencies.latency_of(0).count(), 0u);
  latencies.settle(ms(1111));
  EXPECT_EQ(latencies.latency_of(0).count(), 1u);
  EXPECT_EQ(latencies.latency_of(0).max(), ms(1));
}

TEST(Undisturbed, leaves_out_what_a_stall_told_later_touched) {
  Undisturbed latencies(2);
  latencies.replied(0, ms(50), ms(51));
  latencies.replied(0, ms(100), ms(101));
  latencies.replied(1, ms(99), ms(104));
  latencies.settle(ms(104));
  latencies.stalled({ms(102), ms(104), ms(2)});
  latencies.settle(Nanos::max());
  EXPECT_EQ(latencies.latency_of(0).count(), 1u);
  EXPECT_EQ(latencies.latency_of(1).count(), 0u);
}

// A slow reply is judged by when it was due like any other, or slow ones would be left out more.
TEST(Undisturbed, keeps_a_slow_request_that_a_stall_met_long_after_it_was_due) {
  Undisturbed latencies(1);
  latencies.replied(0, ms(100), ms(400));
  latencies.stalled({ms(390), ms(395), ms(5)});
  latencies.settle(Nanos::max());
  EXPECT_EQ(latencies.latency_of(0).count(), 1u);
  EXPECT_EQ(latencies.latency_of(0).max(), ms(300));
}

TEST(Undisturbed, holds_no_more_than_its_bound) {
  Undisturbed latencies(1);
  for (size_t i = 0; i <= kMaxHeld; ++i) latencies.replied(0, ms(5), ms(6));
  EXPECT_EQ(latencies.latency_of(0).count(), 1u);
}

}  // namespace
}  // namespace rubato::load
