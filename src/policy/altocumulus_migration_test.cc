// SPDX-License-Identifier: Apache-2.0
//
// Altocumulus, whole runs: requests that come to one group move to others, and each is served
// exactly once whatever goes wrong on the way.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "policy/altocumulus.h"
#include "policy/testing/arrivals.h"
#include "policy/testing/drive.h"
#include "policy/testing/seed.h"

namespace rubato {
namespace {

using testing::Arrival;
using testing::drive;
using testing::DriveOptions;
using testing::DriveReport;
using testing::make_arrivals;
using testing::test_seed;

constexpr uint32_t kWorkers = 6;

// Requests for three groups of two, nearly all of which come to the first.
std::vector<Arrival> lopsided(uint64_t seed, double load = 0.7) {
  std::vector<Arrival> arrivals = make_arrivals(seed, {.workers = kWorkers, .load = load});
  for (size_t i = 0; i < arrivals.size(); ++i) {
    if (i % 8 != 0) arrivals[i].worker = WorkerId{static_cast<uint32_t>(i % 2)};
  }
  return arrivals;
}

// Eager: managers send on from a queue of a few.
Altocumulus::Config eager() { return {.group = 2, .bulk = 4, .concurrency = 2}; }

DriveReport run(const Altocumulus::Config& config, const std::vector<Arrival>& arrivals,
                DriveOptions options = {}) {
  options.workers = kWorkers;
  return drive<Altocumulus>(config, arrivals, options);
}

void expect_all_served(const DriveReport& report, size_t arrivals) {
  std::vector<int> seen(arrivals);
  for (const auto& departure : report.departures) ++seen[departure.arrival];
  for (const uint32_t refused : report.refused) ++seen[refused];
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<long>(arrivals));
  for (const std::string& violation : report.violations) ADD_FAILURE() << violation;
}

Nanos sum_of_latencies(const DriveReport& report, const std::vector<Arrival>& arrivals) {
  Nanos sum;
  for (const auto& departure : report.departures) {
    sum += departure.at - arrivals[departure.arrival].at;
  }
  return sum;
}

TEST(AltocumulusRuns, migration_relieves_a_group_that_gets_all_requests) {
  const auto arrivals = lopsided(test_seed(41));
  Altocumulus::Config alone = eager();
  alone.migrate = false;
  const DriveReport without = run(alone, arrivals);
  const DriveReport with = run(eager(), arrivals);
  expect_all_served(without, arrivals.size());
  expect_all_served(with, arrivals.size());
  EXPECT_LT(sum_of_latencies(with, arrivals) * 4, sum_of_latencies(without, arrivals));
}

TEST(AltocumulusRuns, every_request_is_served_once_when_all_goes_wrong) {
  const uint64_t seed = test_seed(42);
  for (uint64_t round = 0; round < 5; ++round) {
    SCOPED_TRACE(seed + round);
    const auto arrivals = lopsided(seed + round);
    for (const bool inside_synergy : {false, true}) {
      Altocumulus::Config config = eager();
      config.inside_synergy = inside_synergy;
      const DriveReport report = run(config, arrivals, {.seed = seed + round, .chaos = true});
      expect_all_served(report, arrivals.size());
      EXPECT_GT(report.mishaps, 0u);
    }
  }
}

TEST(AltocumulusRuns, full_queues_and_registers_lose_nothing) {
  const auto arrivals = lopsided(test_seed(43), 2.0);
  Altocumulus::Config config = eager();
  config.registers = 8;
  config.fifo = 3;
  const DriveReport report = run(config, arrivals, {.queue_capacity = 12});
  expect_all_served(report, arrivals.size());
  EXPECT_FALSE(report.refused.empty());
}

TEST(AltocumulusRuns, inside_synergy_short_requests_pass_long_ones) {
  const auto arrivals = lopsided(test_seed(44));
  const auto sum_of_short = [&](bool inside_synergy) {
    Altocumulus::Config config = eager();
    config.inside_synergy = inside_synergy;
    DriveReport report = run(config, arrivals);
    expect_all_served(report, arrivals.size());
    EXPECT_EQ(report.preemptions > 0, inside_synergy);
    std::erase_if(report.departures, [&](const auto& departure) {
      return arrivals[departure.arrival].job_class == JobClass::kLong;
    });
    return sum_of_latencies(report, arrivals);
  };
  EXPECT_LT(sum_of_short(true) * 2, sum_of_short(false));
}

TEST(AltocumulusRuns, as_many_groups_as_there_can_be) {
  const uint64_t seed = test_seed(45);
  constexpr uint32_t kMany = 2 * limits::kMaxManagers;  // more workers make no more groups
  std::vector<Arrival> arrivals = make_arrivals(seed, {.workers = kMany});
  const DriveReport report =
      drive<Altocumulus>({.group = 1, .bulk = 4}, arrivals, {.workers = kMany});
  expect_all_served(report, arrivals.size());
}

}  // namespace
}  // namespace rubato
