// SPDX-License-Identifier: Apache-2.0
#include "policy/hardware.h"

#include <gtest/gtest.h>

#include <array>

#include "policy/cfcfs.h"
#include "policy/testing/arrivals.h"
#include "policy/testing/drive.h"
#include "policy/testing/script_host.h"
#include "policy/testing/seed.h"

namespace rubato {
namespace {

using testing::ScriptHost;

constexpr QueueRef kCentral{0, 0};
QueueRef local(uint32_t worker) { return {1, worker}; }
QueueRef aside(uint32_t worker) { return {2, worker}; }

TEST(Rpcvalet, a_core_gets_nothing_before_it_is_free) {
  ScriptHost<Rpcvalet> host(2);
  std::array<Job, 3> jobs;
  for (Job& job : jobs) host.push(kCentral, &job);
  host.set_busy(WorkerId{0}, true);
  Rpcvalet::Central central;
  Rpcvalet({}).dispatch(central, host);
  EXPECT_TRUE(host.waiting(local(0)).empty());
  EXPECT_EQ(host.waiting(local(1)), (std::deque<Job*>{&jobs[0]}));
}

TEST(Rpcvalet, without_prices_it_serves_as_one_queue_does) {
  const uint64_t seed = testing::test_seed(42);
  const auto arrivals = testing::make_arrivals(seed, {.load = 0.9});
  const auto by_nic = testing::drive<Rpcvalet>({}, arrivals);
  const auto one_queue = testing::drive<Cfcfs>({}, arrivals);
  EXPECT_EQ(by_nic.departures, one_queue.departures);
}

TEST(Nebula, a_core_that_runs_one_gets_one_more) {
  ScriptHost<Nebula> host(2);
  std::array<Job, 5> jobs;
  for (Job& job : jobs) host.push(kCentral, &job);
  host.set_busy(WorkerId{0}, true);
  Nebula::Central central;
  Nebula({}).dispatch(central, host);
  EXPECT_EQ(host.waiting(local(0)).size(), 1u);
  EXPECT_EQ(host.waiting(local(1)).size(), 2u);
}

TEST(Nanopu, a_request_beyond_its_bound_yields_only_if_another_waits_at_its_core) {
  const Nanopu policy({});
  ScriptHost<Nanopu> host(2);
  Job waiting;
  host.push(local(1), &waiting);
  EXPECT_EQ(policy.expired(waiting, WorkerId{0}, host), SliceDecision::kContinue);
  EXPECT_EQ(policy.expired(waiting, WorkerId{1}, host), SliceDecision::kPreempt);
}

TEST(Nanopu, what_was_put_aside_stays_at_its_core_and_goes_on_after_fresh_requests) {
  const Nanopu policy({});
  ScriptHost<Nanopu> host(2);
  Job cut, fresh;
  None none;
  const QueueRef back = policy.requeue(cut, RequeueReason::kPreempted, WorkerId{1}, host);
  EXPECT_EQ(back, aside(1));
  host.push(back, &cut);
  host.push(local(1), &fresh);
  EXPECT_EQ(policy.next(none, WorkerId{0}, host), nullptr);
  EXPECT_EQ(policy.next(none, WorkerId{1}, host), &fresh);
  EXPECT_EQ(policy.next(none, WorkerId{1}, host), &cut);
}

TEST(Nanopu, what_was_put_aside_counts_as_one_of_the_core) {
  ScriptHost<Nanopu> host(2);
  Job cut;
  std::array<Job, 4> jobs;
  host.set_busy(WorkerId{0}, true);
  host.push(aside(0), &cut);
  for (Job& job : jobs) host.push(kCentral, &job);
  Nanopu::Central central;
  Nanopu({}).dispatch(central, host);
  EXPECT_TRUE(host.waiting(local(0)).empty());
  EXPECT_EQ(host.waiting(local(1)).size(), 2u);
}

// One core: a short request comes behind a long one, and is done after the bound.
TEST(Nanopu, a_short_request_passes_a_long_one_at_the_same_core) {
  const std::vector<testing::Arrival> arrivals{
      {.service = Nanos::micros(100), .job_class = JobClass::kLong},
      {.at = Instant(10), .service = Nanos::micros(1)}};
  const auto report = testing::drive<Nanopu>({}, arrivals, {.workers = 1});
  ASSERT_EQ(report.departures.size(), 2u);
  EXPECT_EQ(report.departures[0].arrival, 1u);
  EXPECT_EQ(report.departures[0].at, Instant() + Nanos::micros(2));
  EXPECT_EQ(report.departures[1].at, Instant() + Nanos::micros(101));
}

}  // namespace
}  // namespace rubato
