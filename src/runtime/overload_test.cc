// SPDX-License-Identifier: Apache-2.0
//
// What the live runtime knows of its own overload, and what it does about it.
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "mechanism/clock/clock.h"
#include "runtime/exposition.h"
#include "runtime/testing/letter_app.h"

namespace rubato {
namespace {

using testing::checkpoints_until;
using testing::LetterServer;

constexpr Nanos kALongTime = Nanos::millis(5);

void spin_for(Nanos time) {
  const Instant end = now() + time;
  while (now() < end) continue;
}

TEST(QueueDelay, is_the_wait_before_the_first_start_and_none_once_nothing_waits) {
  LetterServer server("fcfs");
  std::atomic<bool> runs{false};
  std::atomic<bool> go_on{false};
  Nanos seen;
  server.app.on('L') = [&](Request&) {
    runs = true;
    while (!go_on) continue;
    spin_for(kALongTime);
  };
  server.app.on('S') = [&](Request&) { seen = server.runtime->queue_delay(JobClass::kShort); };
  server.start();
  const uint64_t slow = server.occupy("L\n", runs);
  const uint64_t fast = server.connect();
  server.submit(fast, "S\n");
  go_on = true;
  EXPECT_EQ(server.receive(fast, 2), "S\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_GE(seen, kALongTime);
  while (server.runtime->queue_delay(JobClass::kShort) != Nanos()) std::this_thread::yield();
}

TEST(QueueDelay, of_short_requests_knows_nothing_of_a_preempted_long_one_that_waits) {
  LetterServer server("synergy");
  std::atomic<bool> runs{false};
  std::atomic<bool> short_ran{false};
  Nanos long_waited;
  Nanos short_waited = Nanos::max();
  server.app.on('L') = [&](Request& request) {
    long_begin();
    runs = true;
    const uint32_t before = request.preemptions;
    checkpoints_until([&] { return short_ran.load(); });
    if (request.preemptions > before) long_waited = server.runtime->queue_delay(JobClass::kLong);
    long_end();
  };
  server.app.on('S') = [&](Request&) {
    spin_for(kALongTime);
    short_ran = true;
  };
  server.app.on('T') = [&](Request&) {
    short_waited = server.runtime->queue_delay(JobClass::kShort);
  };
  server.start();
  const uint64_t slow = server.occupy("L\n", runs);
  const uint64_t fast = server.connect();
  EXPECT_EQ(server.call(fast, "S\n"), "S\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_EQ(server.call(fast, "T\n"), "T\n");
  EXPECT_GE(long_waited, kALongTime);
  EXPECT_LT(short_waited, long_waited);
}

TEST(QueueDelay, does_not_count_the_control_plane) {
  LetterServer server("fcfs");
  std::atomic<bool> runs{false};
  std::atomic<bool> go_on{false};
  Nanos seen = Nanos::max();
  server.app.on('L') = [&](Request&) {
    runs = true;
    while (!go_on) continue;
    spin_for(kALongTime);
  };
  server.app.on('C') = [&](Request&) { seen = server.runtime->queue_delay(JobClass::kShort); };
  server.start();
  const uint64_t slow = server.occupy("L\n", runs);
  const uint64_t health = server.connect();
  server.submit(health, "C\n");
  go_on = true;
  EXPECT_EQ(server.receive(health, 2), "C\n");
  EXPECT_EQ(server.receive(slow, 2), "L\n");
  EXPECT_LT(seen, kALongTime);
}

}  // namespace
}  // namespace rubato
