// SPDX-License-Identifier: Apache-2.0
#include "load/core_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <limits>

#include "mechanism/clock/clock.h"

namespace rubato::load {
namespace {

TEST(CoreWatch, schedstat_is_time_run_then_time_waited_then_turns) {
  ScheduleTimes times;
  ASSERT_TRUE(parse_schedstat("1344581722 31100392 9468\n", times));
  EXPECT_EQ(times.ran, Nanos(1344581722));
  EXPECT_EQ(times.waited, Nanos(31100392));
  EXPECT_EQ(times.turns, 9468);
  for (const char* text : {"", " ", "12", "12 ", "x 1 2", "1 y 2", "1 2", "1 2 z"}) {
    EXPECT_FALSE(parse_schedstat(text, times)) << text;
  }
}

TEST(CoreWatch, a_process_that_is_not_there_is_told) {
  const Result<CoreWatch> watch = CoreWatch::open(std::numeric_limits<int32_t>::max());
  ASSERT_FALSE(watch.ok());
  EXPECT_NE(watch.error().find("2147483647"), std::string::npos);
}

TEST(CoreWatch, time_without_the_core_is_a_stall_between_two_readings) {
  Result<CoreWatch> watch = CoreWatch::open(0);
  ASSERT_TRUE(watch.ok());
  watch->begin();
  const Instant start = now();
  // A thread that gives its core away is what this takes for one that lost it.
  ::poll(nullptr, 0, 20);
  const Nanos end = now() - start;
  std::vector<Stall> found;
  watch->poll(end, found);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].start, Nanos(0));
  EXPECT_EQ(found[0].end, end);
  EXPECT_GE(found[0].lost, Nanos::millis(15));
  EXPECT_LE(found[0].lost, end);
}

// Whatever this machine does to the test, a loss is never longer than the time that passed.
TEST(CoreWatch, a_busy_thread_loses_no_more_than_it_lacks) {
  Result<CoreWatch> watch = CoreWatch::open(static_cast<uint32_t>(::getpid()));
  ASSERT_TRUE(watch.ok());
  EXPECT_GE(watch->server_threads(), 1u);
  watch->begin();
  const Instant start = now();
  while (now() - start < Nanos::millis(5)) {
  }
  watch->keep_busy();
  EXPECT_GE(watch->server_threads(), 1u);
  std::vector<Stall> found;
  watch->poll(now() - start, found);
  for (const Stall& stall : found) {
    EXPECT_GT(stall.lost, kStallFloor);
    EXPECT_LE(stall.lost, stall.end - stall.start);
  }
}

}  // namespace
}  // namespace rubato::load
