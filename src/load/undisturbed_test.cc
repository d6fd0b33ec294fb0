// SPDX-License-Identifier: Apache-2.0
#include "load/undisturbed.h"

#include <gtest/gtest.h>

namespace rubato::load {
namespace {

constexpr Nanos ms(int64_t n) { return Nanos::millis(n); }

TEST(Undisturbed, waits_until_a_stall_must_be_known) {
  Undisturbed books(1);
  books.replied(0, ms(100), ms(101));
  books.settle(ms(1110));
  EXPECT_EQ(books.latency_of(0).count(), 0u);
  books.settle(ms(1111));
  EXPECT_EQ(books.latency_of(0).count(), 1u);
  EXPECT_EQ(books.latency_of(0).max(), ms(1));
}

TEST(Undisturbed, leaves_out_what_a_stall_told_later_touched) {
  Undisturbed books(2);
  books.replied(0, ms(50), ms(51));
  books.replied(0, ms(100), ms(101));
  books.replied(1, ms(99), ms(104));
  books.settle(ms(104));
  books.stalled({ms(102), ms(104), ms(2)});
  books.settle(Nanos::max());
  EXPECT_EQ(books.latency_of(0).count(), 1u);
  EXPECT_EQ(books.latency_of(1).count(), 0u);
}

// A slow reply is judged by when it was due like any other, or slow ones would be left out more.
TEST(Undisturbed, keeps_a_slow_request_that_a_stall_met_long_after_it_was_due) {
  Undisturbed books(1);
  books.replied(0, ms(100), ms(400));
  books.stalled({ms(390), ms(395), ms(5)});
  books.settle(Nanos::max());
  EXPECT_EQ(books.latency_of(0).count(), 1u);
  EXPECT_EQ(books.latency_of(0).max(), ms(300));
}

TEST(Undisturbed, holds_no_more_than_its_bound) {
  Undisturbed books(1);
  for (size_t i = 0; i <= kMaxHeld; ++i) books.replied(0, ms(5), ms(6));
  EXPECT_EQ(books.latency_of(0).count(), 1u);
}

}  // namespace
}  // namespace rubato::load
