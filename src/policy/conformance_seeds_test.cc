// SPDX-License-Identifier: Apache-2.0
//
// Every policy of all.h over many random settings, its own options included, on the checked and on
// the chaotic host, and in floods. A failure names the seed, which RUBATO_SEED replays, and
// RUBATO_SEEDS says how many are run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "policy/testing/conformance.h"
#include "policy/testing/flood.h"
#include "policy/testing/random_case.h"
#include "policy/testing/replay.h"
#include "policy/testing/seed.h"

namespace rubato {
namespace {

using testing::as_arguments;
using testing::draw_case;
using testing::DriveOptions;
using testing::Driven;
using testing::DriveReport;
using testing::expect_all_served;
using testing::Flood;
using testing::FloodKind;
using testing::FloodMaker;
using testing::PolicySettings;
using testing::RandomCase;
using testing::Replay;
using testing::Seeds;
using testing::test_seeds;

constexpr uint64_t kRuns = 100;
constexpr uint64_t kFloods = 20;
constexpr uint64_t kRunsPerFlood = 10;  // of RUBATO_SEEDS

struct Tally {
  uint64_t runs = 0, requests = 0, refused = 0, preemptions = 0, mishaps = 0, starved = 0;

  void add(const DriveReport& report) {
    ++runs;
    requests += report.departures.size() + report.refused.size();
    refused += report.refused.size();
    preemptions += report.preemptions;
    mishaps += report.mishaps;
  }
  void print(const char* what) const {
    const auto number = [](uint64_t count) { return static_cast<unsigned long long>(count); };
    std::printf("%s: %llu runs of %llu requests: %llu refused, %llu preemptions, %llu mishaps, "
                "%llu times somebody starved\n",
                what, number(runs), number(requests), number(refused), number(preemptions),
                number(mishaps), number(starved));
  }
};

class ConformanceSeeds : public ::testing::TestWithParam<Driven> {
 protected:
  // Ends at the first seed that fails: it is the one to replay.
  static void expect_nothing_is_lost_or_doubled(bool chaos) {
    const Seeds seeds = test_seeds(kRuns);
    Tally tally;
    for (uint64_t seed = seeds.first; seed < seeds.end() && !HasFailure(); ++seed) {
      RandomCase drawn = draw_case(GetParam(), seed);
      drawn.options.chaos = chaos;
      const Replay replay(seed, drawn.text);
      const DriveReport report =
          GetParam().drive(drawn.arrivals, drawn.options, drawn.settings);
      expect_all_served(report, drawn.arrivals.size());
      tally.add(report);
    }
    tally.print(GetParam().name);
  }

  // Policies that learn what types there are do so within the quiet before the flood.
  static PolicySettings quick_to_learn() {
    PolicySettings settings;
    for (const std::string name : GetParam().options) {
      if (name == "window") settings.emplace_back(name, "100");
      if (name == "check") settings.emplace_back(name, "10us");
    }
    return settings;
  }

  // Is there no flood so long that the victims are served before it ends? A policy that serves them
  // at last, for instance by turns, needs a longer one the more workers there are.
  static bool starves(uint64_t seed, bool chaos, FloodKind flooding, FloodKind victim,
                      Tally& tally) {
    const uint32_t workers = 1 + static_cast<uint32_t>(seed % 16);
    const DriveOptions options{
        .workers = workers, .queue_capacity = 64, .seed = seed, .chaos = chaos};
    for (uint32_t length = 2'000; length <= 32'000; length *= 4) {
      const Flood flood = FloodMaker(seed, workers).make(flooding, victim, length);
      const DriveReport report = GetParam().drive(flood.arrivals, options, quick_to_learn());
      expect_all_served(report, flood.arrivals.size());
      tally.add(report);
      if (!testing::starved(flood, report)) return false;
    }
    ++tally.starved;
    return true;
  }

  static bool may_starve(FloodKind victim) {
    switch (GetParam().may_starve) {
      case MayStarve::kNobody: return false;
      case MayStarve::kUnknown: return victim == FloodKind::kUnknown;
      case MayStarve::kLong: return victim != FloodKind::kShort;
    }
    return false;
  }
};

INSTANTIATE_TEST_SUITE_P(Policies, ConformanceSeeds, ::testing::ValuesIn(testing::all_driven()),
                         testing::name_of_param);

TEST_P(ConformanceSeeds, lose_and_double_no_request) { expect_nothing_is_lost_or_doubled(false); }

TEST_P(ConformanceSeeds, lose_and_double_no_request_when_all_goes_wrong) {
  expect_nothing_is_lost_or_doubled(true);
}

TEST_P(ConformanceSeeds, let_nobody_starve_in_a_flood_but_whom_the_policy_says) {
  constexpr std::pair<FloodKind, FloodKind> kFloodsAndVictims[] = {
      {FloodKind::kShort, FloodKind::kLong},
      {FloodKind::kShort, FloodKind::kUnknown},
      {FloodKind::kLong, FloodKind::kShort},
      {FloodKind::kLong, FloodKind::kUnknown}};
  const Seeds seeds = test_seeds(kFloods, kRunsPerFlood);
  Tally tally;
  for (uint64_t seed = seeds.first; seed < seeds.end() && !HasFailure(); ++seed) {
    const auto [flooding, victim] = kFloodsAndVictims[seed % 4];
    const bool chaos = seed % 3 == 0;
    const Replay replay(seed, std::string(GetParam().name) + ", " + name_of(victim) +
                                  " requests in a flood of " + name_of(flooding) +
                                  (chaos ? " ones, chaos" : " ones"));
    EXPECT_TRUE(!starves(seed, chaos, flooding, victim, tally) || may_starve(victim))
        << "they were not served before its end";
  }
  tally.print(GetParam().name);
  const bool claims = GetParam().may_starve != MayStarve::kNobody;
  if (seeds.count < kFloods) return;
  EXPECT_EQ(tally.starved > 0, claims) << "a claim without need";
}

}  // namespace
}  // namespace rubato
