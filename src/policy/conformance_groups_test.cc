// SPDX-License-Identifier: Apache-2.0
//
// Groups of requests share the workers by weight under every policy, which orders one of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "policy/testing/arrivals.h"
#include "policy/testing/conformance.h"
#include "policy/testing/driven.h"
#include "policy/testing/seed.h"

namespace rubato {
namespace {

using testing::Arrival;
using testing::Departure;
using testing::Driven;
using testing::DriveOptions;
using testing::DriveReport;
using testing::expect_all_served;
using testing::make_arrivals;
using testing::Mix;
using testing::test_seed;

constexpr uint8_t kA = kFirstOwnGroup;
constexpr uint8_t kB = kFirstOwnGroup + 1;

class GroupConformance : public ::testing::TestWithParam<Driven> {
 protected:
  static constexpr uint32_t kWorkers = 2;

  // More than all workers can do, of each of those groups.
  void flood(std::vector<uint8_t> groups, Mix mix) {
    mix.workers = kWorkers;
    mix.load = 3;
    for (const uint8_t group : groups) add(group, make_arrivals(test_seed(group), mix));
  }
  void add(uint8_t group, std::vector<Arrival> arrivals) {
    for (Arrival& arrival : arrivals) arrival.group = group;
    arrivals_.insert(arrivals_.end(), arrivals.begin(), arrivals.end());
  }
  void run(sched::GroupWeights weights) {
    std::ranges::stable_sort(arrivals_, {}, &Arrival::at);
    report_ = GetParam().drive(arrivals_, {.workers = kWorkers, .weights = std::move(weights)}, {});
    expect_all_served(report_, arrivals_.size());
  }
  // What the group had while jobs came, until when there is work of every group that is flooded.
  double workers_for(uint8_t group) const {
    const Nanos all = arrivals_.back().at - Instant();
    return static_cast<double>(report_.service[group].count()) / static_cast<double>(all.count());
  }
  Nanos longest_latency(uint8_t group) const {
    Nanos longest;
    for (const Departure& done : report_.departures) {
      if (arrivals_[done.arrival].group != group) continue;
      longest = std::max(longest, done.at - arrivals_[done.arrival].at);
    }
    return longest;
  }

  std::vector<Arrival> arrivals_;
  DriveReport report_;
};

INSTANTIATE_TEST_SUITE_P(Policies, GroupConformance, ::testing::ValuesIn(testing::all_driven()),
                         testing::name_of_param);

TEST_P(GroupConformance, shares_converge_to_the_weights) {
  flood({kPolicyGroup, kA, kB}, {.jobs = 3000, .long_share = 0});
  run({.policy = 100, .own = {300, 100}});
  EXPECT_NEAR(workers_for(kPolicyGroup), kWorkers * 0.2, 0.02);
  EXPECT_NEAR(workers_for(kA), kWorkers * 0.6, 0.02);
  EXPECT_NEAR(workers_for(kB), kWorkers * 0.2, 0.02);
}

TEST_P(GroupConformance, long_requests_share_by_time) {
  flood({kPolicyGroup, kA}, {.jobs = 2000, .long_share = 0.2});
  run({.policy = 100, .own = {300}});
  EXPECT_NEAR(workers_for(kPolicyGroup), kWorkers * 0.25, 0.05);
  EXPECT_NEAR(workers_for(kA), kWorkers * 0.75, 0.05);
}

TEST_P(GroupConformance, a_flood_starves_no_other_group) {
  flood({kA}, {.jobs = 4000, .long_share = 0.1});
  add(kPolicyGroup, make_arrivals(test_seed(5), {.jobs = 500, .workers = kWorkers, .load = 0.2,
                                                 .long_share = 0}));
  run({.policy = 100, .own = {100}});
  const bool preempts = GetParam().preempts != Preempts::kNothing;
  EXPECT_LT(longest_latency(kPolicyGroup), Nanos::micros(preempts ? 200 : 400));
  EXPECT_GT(longest_latency(kA), Nanos::millis(5)) << "it was no flood";
}

TEST_P(GroupConformance, idle_shares_are_lent) {
  flood({kA}, {.jobs = 2000, .long_share = 0.1});
  run({.policy = 10'000, .own = {1}});
  EXPECT_GT(workers_for(kA), kWorkers * 0.98);
}

}  // namespace
}  // namespace rubato
