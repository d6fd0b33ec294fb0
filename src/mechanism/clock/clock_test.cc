// SPDX-License-Identifier: Apache-2.0
#include "mechanism/clock/clock.h"

#include <gtest/gtest.h>
#include <time.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "mechanism/clock/calibration.h"

namespace rubato {
namespace {

constexpr double kNanosPerCycle = 1e9 / 2.6e9;

std::array<ClockPair, 9> perfect_readings() {
  std::array<ClockPair, 9> pairs;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto ns = static_cast<int64_t>(i * 2'000'000);
    pairs[i] = {1'000'000 + static_cast<uint64_t>(static_cast<double>(ns) / kNanosPerCycle),
                500 + ns};
  }
  return pairs;
}

TEST(Calibration, recovers_the_rate_of_undisturbed_readings) {
  EXPECT_NEAR(nanos_per_cycle(perfect_readings()), kNanosPerCycle, 1e-6);
}

TEST(Calibration, is_not_moved_by_two_readings_that_were_interrupted) {
  auto pairs = perfect_readings();
  pairs[1].cycles += 5'000'000;
  pairs[7].ns += 900'000;
  EXPECT_NEAR(nanos_per_cycle(pairs), kNanosPerCycle, kNanosPerCycle * 1e-3);
}

TEST(Calibration, gives_zero_when_the_counter_stands_still) {
  auto pairs = perfect_readings();
  for (ClockPair& pair : pairs) pair.cycles = 42;
  EXPECT_EQ(nanos_per_cycle(pairs), 0);
  EXPECT_EQ(nanos_per_cycle({}), 0);
}

TEST(Clock, never_goes_backwards_on_one_thread) {
  const Clock& clock = process_clock();
  Instant last = clock.now();
  for (int i = 0; i < 200'000; ++i) {
    const Instant next = clock.now();
    ASSERT_GE(next, last);
    last = next;
  }
}

TEST(Clock, the_time_of_cycles_is_that_of_now) {
  for (const Clock& clock : {process_clock(), Clock::from_kernel().value()}) {
    const Instant before = clock.now();
    const Instant between = clock.at(clock.cycles());
    EXPECT_LE(before, between);
    EXPECT_LE(between, clock.now());
  }
}

TEST(Clock, agrees_with_the_kernel_on_how_long_something_took) {
  const Clock clock = Clock::calibrate().value();
  const Clock kernel = Clock::from_kernel().value();
  const Instant ours = clock.now();
  const Instant theirs = kernel.now();
  while (kernel.now() - theirs < Nanos::millis(50)) {
  }
  // The reading of one clock may be delayed after the other's, so only the lower bound is sure.
  EXPECT_GE(clock.now() - ours, Nanos::micros(49'900));
  // Both count from the same origin; a machine that is busy may delay one reading by a lot.
  EXPECT_LT(std::abs((clock.now() - kernel.now()).count()), Nanos::seconds(5).count());
}

TEST(Clock, states_its_source_and_rate) {
  const Clock& clock = process_clock();
  const std::string source = clock.source();
  EXPECT_TRUE(source == "tsc" || source == "cntvct" || source == "clock_gettime") << source;
  EXPECT_GT(clock.frequency_hz(), 1e6);
  EXPECT_LT(clock.frequency_hz(), 1e11);
  RecordProperty("source", source);
  const uint64_t before = clock.cycles();
  while (clock.cycles() == before) {
  }
}

TEST(Clock, two_calibrations_agree) {
  const Clock first = Clock::calibrate().value();
  const Clock second = Clock::calibrate().value();
  EXPECT_NEAR(first.frequency_hz() / second.frequency_hz(), 1.0, 1e-3);
}

TEST(Clock, is_calibrated_once_however_many_threads_ask) {
  std::vector<std::thread> threads;
  std::array<const Clock*, 4> seen{};
  for (size_t i = 0; i < seen.size(); ++i) {
    threads.emplace_back([&seen, i] {
      seen[i] = &process_clock();
      EXPECT_GT(now(), Instant());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Clock* clock : seen) EXPECT_EQ(clock, seen[0]);
}

}  // namespace
}  // namespace rubato
