// SPDX-License-Identifier: Apache-2.0
//
// What every policy of all.h has to keep, run in virtual time over checked and chaotic hosts.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "policy/testing/arrivals.h"
#include "policy/testing/conformance.h"
#include "policy/testing/driven.h"
#include "policy/testing/seed.h"

namespace rubato {
namespace {

using testing::Arrival;
using testing::DriveOptions;
using testing::Driven;
using testing::DriveReport;
using testing::expect_all_served;
using testing::make_arrivals;
using testing::Mix;
using testing::test_seed;

class Conformance : public ::testing::TestWithParam<Driven> {
 protected:
  static DriveReport drive(const std::vector<Arrival>& arrivals, const DriveOptions& options = {}) {
    return GetParam().drive(arrivals, options, {});
  }
};

INSTANTIATE_TEST_SUITE_P(Policies, Conformance, ::testing::ValuesIn(testing::all_driven()),
                         testing::name_of_param);

TEST_P(Conformance, names_are_fit_for_a_command_line) {
  const std::string name = GetParam().name;
  EXPECT_FALSE(name.empty());
  EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos);
  EXPECT_STRNE(GetParam().summary, "");
  EXPECT_STRNE(GetParam().source, "");
}

TEST_P(Conformance, queues_are_named_apart_and_global_ones_are_shared) {
  std::set<std::string> names;
  for (const QueueDeclaration& declaration : GetParam().queues) {
    EXPECT_TRUE(names.insert(declaration.name).second) << declaration.name;
    EXPECT_GE(declaration.queue_count, 1u);
    if (declaration.scope != Scope::kGlobal) continue;
    EXPECT_EQ(declaration.sharing, Sharing::kShared) << declaration.name;
  }
}

TEST_P(Conformance, every_job_finishes_exactly_once) {
  const uint64_t seed = test_seed(11);
  for (const uint32_t workers : {1u, 2u, 5u, 16u}) {
    SCOPED_TRACE(workers);
    const std::vector<Arrival> arrivals = make_arrivals(seed, {.workers = workers});
    const DriveReport report = drive(arrivals, {.workers = workers, .seed = seed});
    expect_all_served(report, arrivals.size());
    EXPECT_TRUE(report.refused.empty());
  }
}

TEST_P(Conformance, every_job_finishes_exactly_once_when_all_goes_wrong) {
  const uint64_t seed = test_seed(12);
  for (uint64_t round = 0; round < 5; ++round) {
    SCOPED_TRACE(seed + round);
    const std::vector<Arrival> arrivals = make_arrivals(seed + round, {.load = 0.8});
    const DriveReport report =
        drive(arrivals, {.seed = seed + round, .chaos = true});
    expect_all_served(report, arrivals.size());
    EXPECT_GT(report.mishaps, 0u);
  }
}

TEST_P(Conformance, full_queues_refuse_and_lose_nothing) {
  const uint64_t seed = test_seed(13);
  const std::vector<Arrival> arrivals = make_arrivals(seed, {.load = 3.0});
  const DriveReport report = drive(arrivals, {.queue_capacity = 40, .seed = seed});
  expect_all_served(report, arrivals.size());
  EXPECT_FALSE(report.refused.empty());
}

TEST_P(Conformance, no_job_starves_at_a_moderate_load) {
  const uint64_t seed = test_seed(14);
  const std::vector<Arrival> arrivals = make_arrivals(seed, {.jobs = 20'000});
  const DriveReport report = drive(arrivals, {.seed = seed, .patience = 2'000});
  expect_all_served(report, arrivals.size());
}

TEST_P(Conformance, same_seed_same_run) {
  const uint64_t seed = test_seed(15);
  const std::vector<Arrival> arrivals = make_arrivals(seed);
  for (const bool chaos : {false, true}) {
    const DriveOptions options{.seed = seed, .chaos = chaos};
    EXPECT_EQ(drive(arrivals, options), drive(arrivals, options));
  }
}

TEST_P(Conformance, no_worker_idles_while_a_job_waits_exactly_if_the_policy_claims_so) {
  const uint64_t seed = test_seed(16);
  // Long enough for policies that learn first (the window of darc is 50 000 requests).
  const std::vector<Arrival> arrivals = make_arrivals(seed, {.jobs = 80'000, .load = 0.9});
  const DriveReport report = drive(arrivals, {.seed = seed});
  EXPECT_EQ(report.idle_while_waiting == 0, GetParam().claims_work_conserving)
      << report.idle_while_waiting << " times";
}

TEST_P(Conformance, preempts_only_what_it_declares) {
  const uint64_t seed = test_seed(17);
  const std::vector<Arrival> arrivals = make_arrivals(seed, {.load = 0.9});
  const DriveReport report = drive(arrivals, {.seed = seed});
  if (GetParam().preempts == Preempts::kNothing) {
    EXPECT_EQ(report.preemptions + report.kept_on, 0u);
    return;
  }
  // Some have no slices but by an option.
  EXPECT_EQ(report.preemptions > 0, report.slices > 0);
  for (const auto& departure : report.departures) {
    if (departure.preemptions == 0 || GetParam().preempts == Preempts::kEverything) continue;
    EXPECT_EQ(arrivals[departure.arrival].job_class, JobClass::kLong);
  }
}

TEST_P(Conformance, a_lone_job_is_never_put_back) {
  const std::vector<Arrival> arrivals{{.service = Nanos::millis(1), .job_class = JobClass::kLong}};
  const DriveReport report = drive(arrivals);
  ASSERT_EQ(report.departures.size(), 1u);
  EXPECT_EQ(report.departures[0].at, Instant() + Nanos::millis(1));
  EXPECT_EQ(report.preemptions, 0u);
}

TEST_P(Conformance, one_worker_is_enough) {
  const std::vector<Arrival> arrivals{{.service = Nanos(5)}, {.service = Nanos(7)}};
  const DriveReport report = drive(arrivals, {.workers = 1});
  ASSERT_EQ(report.departures.size(), 2u);
  EXPECT_EQ(report.departures[1].at, Instant(12));
}

}  // namespace
}  // namespace rubato
