// SPDX-License-Identifier: Apache-2.0
#include "mechanism/clock/cpu_loss.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "mechanism/clock/clock.h"

namespace rubato {
namespace {

constexpr Nanos kPause = Nanos::millis(20);

void pause() { std::this_thread::sleep_for(std::chrono::nanoseconds(kPause.count())); }

TEST(CpuLoss, time_without_a_cpu_is_lost_unless_the_thread_says_that_it_slept) {
  CpuLoss loss;
  loss.restart(now());
  pause();  // has the effect of losing the CPU
  EXPECT_GE(loss.take(now()), kPause - Nanos::millis(1));

  const Instant from = now();
  pause();
  const Instant to = now();
  loss.slept(from, to);
  EXPECT_LT(loss.take(to), to - from);
}

TEST(CpuLoss, what_a_thread_computes_is_not_lost) {
  CpuLoss loss;
  const Instant from = now();
  loss.restart(from);
  const Nanos cpu = thread_cpu_time();
  while (thread_cpu_time() - cpu < Nanos::millis(5)) continue;
  const Instant to = now();
  EXPECT_LE(loss.take(to), to - from - Nanos::millis(5));
}

TEST(CpuLoss, what_was_taken_is_not_counted_again) {
  CpuLoss loss;
  loss.restart(now());
  pause();
  const Instant first = now();
  EXPECT_GE(loss.take(first), kPause - Nanos::millis(1));
  const Instant second = now();
  EXPECT_LE(loss.take(second), second - first);
}

}  // namespace
}  // namespace rubato
