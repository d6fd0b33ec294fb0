// SPDX-License-Identifier: Apache-2.0
//
// Synergy's options that join it with other systems: flow migration (SBB), wait queues by type with
// SLOs (Shinjuku), workers reserved by demand (Persephone).
#include <gtest/gtest.h>

#include <array>

#include "policy/synergy.h"
#include "policy/testing/arrivals.h"
#include "policy/testing/drive.h"
#include "policy/testing/script_host.h"
#include "policy/testing/seed.h"

namespace rubato {
namespace {

using testing::Arrival;
using testing::drive;
using testing::DriveReport;
using testing::make_arrivals;
using testing::ScriptHost;
using testing::test_seed;

constexpr QueueRef inbox(uint32_t worker) { return {0, worker}; }
constexpr QueueRef waiting(uint32_t level) { return {1, level}; }
constexpr uint32_t kWorkers = 4;

Job of_type(uint32_t type, int64_t arrived_ns = 0) {
  Job job;
  job.type = type;
  job.arrived = Instant(arrived_ns);
  job.job_class = JobClass::kLong;
  return job;
}

class Reserving : public ::testing::Test {
 protected:
  // So many requests were served: 1 us each the short, 100 us each the long.
  void serve(uint32_t shorts, uint32_t longs) {
    for (uint32_t i = 0; i < shorts; ++i) {
      host.note_served(0, Nanos::micros(1), Nanos(), JobClass::kShort);
    }
    for (uint32_t i = 0; i < longs; ++i) {
      host.note_served(0, Nanos::micros(100), Nanos(), JobClass::kLong);
    }
  }
  uint32_t reserved_after_adapt() {
    host.publish(policy.adapt(central, host));
    return host.plan().reserved;
  }

  ScriptHost<Synergy> host{kWorkers};
  Synergy policy{{.reserve = true}};
  Synergy::Central central;
  Synergy::Worker worker;
};

TEST_F(Reserving, follows_the_share_of_short_work) {
  serve(1000, 10);  // half of the work
  EXPECT_EQ(reserved_after_adapt(), 2u);
  serve(1000, 100);  // an eleventh: at least one
  EXPECT_EQ(reserved_after_adapt(), 1u);
  serve(100'000, 1);  // nearly all: never all workers
  EXPECT_EQ(reserved_after_adapt(), kWorkers - 1);
}

TEST_F(Reserving, waits_for_a_window_and_for_long_requests) {
  serve(999, 0);
  EXPECT_EQ(reserved_after_adapt(), 0u);
  serve(1, 0);
  EXPECT_EQ(reserved_after_adapt(), 0u);  // no long ones to keep out
}

TEST_F(Reserving, a_reserved_worker_takes_no_long_request_and_gives_away_one_that_becomes_long) {
  serve(1000, 10);
  ASSERT_EQ(reserved_after_adapt(), 2u);
  Job job = of_type(0);
  host.push(waiting(0), &job);
  EXPECT_EQ(policy.next(worker, WorkerId{0}, host), nullptr);
  EXPECT_EQ(policy.next(worker, WorkerId{1}, host), nullptr);
  EXPECT_EQ(policy.expired(Job(), WorkerId{1}, host), SliceDecision::kPreempt);
  EXPECT_EQ(policy.expired(Job(), WorkerId{2}, host), SliceDecision::kContinue);
  EXPECT_EQ(policy.next(worker, WorkerId{2}, host), &job);
}

// Persephone's promise by way of feedback, with slices so long that cutting does not help.
TEST(SynergyReserve, short_requests_find_a_free_worker) {
  const auto arrivals = make_arrivals(test_seed(31), {.jobs = 20'000, .load = 0.8});
  const auto sum_of_short = [&](bool reserve) {
    const DriveReport report = drive<Synergy>(
        {.fixed_quantum = Nanos::micros(50), .reserve = reserve}, arrivals);
    EXPECT_TRUE(report.violations.empty());
    Nanos sum;
    for (const auto& departure : report.departures) {
      const Arrival& arrival = arrivals[departure.arrival];
      if (arrival.job_class == JobClass::kShort) sum = sum + (departure.at - arrival.at);
    }
    return sum;
  };
  EXPECT_LT(sum_of_short(true) * 2, sum_of_short(false));
}

class ByType : public ::testing::Test {
 protected:
  ByType() {
    host.note_served(1, Nanos::micros(10), Nanos());
    host.note_served(2, Nanos::micros(100), Nanos());
    host.note_served(40, Nanos::micros(1000), Nanos());
  }
  Job* next(Synergy::Config config) {
    const Synergy policy{config};
    host.publish(policy.adapt(central, host));
    return policy.next(worker, WorkerId{0}, host);
  }

  ScriptHost<Synergy> host{kWorkers};
  Synergy::Central central;
  Synergy::Worker worker;
};

TEST_F(ByType, each_type_has_its_own_wait_queue_and_the_rest_share_one) {
  const Synergy policy{{.waiting = {.long_turn = Nanos(), .by_type = true}}};
  EXPECT_EQ(policy.requeue(of_type(2), RequeueReason::kPreempted, WorkerId{0}, host), waiting(2));
  EXPECT_EQ(policy.requeue(of_type(40), RequeueReason::kPreempted, WorkerId{0}, host), waiting(7));
  EXPECT_EQ(policy.requeue(of_type(0), RequeueReason::kPreempted, WorkerId{0}, host), waiting(0));
}

TEST_F(ByType, the_longest_wait_in_relation_to_the_slo_is_next) {
  Job first = of_type(2, 0);
  Job second = of_type(1, 500'000);
  host.push(waiting(2), &first);
  host.push(waiting(1), &second);
  host.set_now(Instant(1'000'000));  // waited 1 ms of 10 x 100 us, and 0.5 ms of 10 x 10 us
  EXPECT_EQ(next({.waiting = {.by_type = true}}), &second);
}

TEST_F(ByType, a_type_with_a_tighter_slo_goes_first) {
  Job first = of_type(2, 0);
  Job second = of_type(1, 500'000);
  host.push(waiting(2), &first);
  host.push(waiting(1), &second);
  host.set_now(Instant(1'000'000));
  SynergyWaitQueue::PerLevel slo{10, 10, 1, 10, 10, 10, 10, 10};  // 1 ms of 100 us
  EXPECT_EQ(next({.waiting = {.by_type = true, .slo = slo}}), &first);
}

TEST_F(ByType, a_type_that_was_never_served_does_not_starve) {
  Job job = of_type(3);
  host.push(waiting(3), &job);
  EXPECT_EQ(next({.waiting = {.by_type = true}}), &job);
}

TEST(SynergyFlows, an_idle_worker_takes_the_flow_of_an_overloaded_one) {
  ScriptHost<Synergy> host(2);
  const Synergy policy{{.migrate_flows = true}};
  Synergy::Worker busy;
  Synergy::Worker idle;
  std::array<Job, 400> jobs;
  for (Job& job : jobs) job.flow = 7, host.push(inbox(0), &job);
  // Two times three rounds of 16 picks above the thresholds, then the next request's flow.
  for (int pick = 0; pick < 5 * 16 + 2; ++pick) policy.next(busy, WorkerId{0}, host);
  EXPECT_EQ(host.arrives_at(7, WorkerId{0}), WorkerId{0});
  EXPECT_NE(policy.next(idle, WorkerId{1}, host), nullptr);  // steals as well
  EXPECT_EQ(host.arrives_at(7, WorkerId{0}), WorkerId{1});
}

TEST(SynergyFlows, stay_where_they_are_by_default) {
  ScriptHost<Synergy> host(2);
  const Synergy policy{Synergy::Config{}};
  Synergy::Worker busy;
  Synergy::Worker idle;
  std::array<Job, 400> jobs;
  for (Job& job : jobs) job.flow = 7, host.push(inbox(0), &job);
  for (int pick = 0; pick < 200; ++pick) policy.next(busy, WorkerId{0}, host);
  policy.next(idle, WorkerId{1}, host);
  EXPECT_EQ(host.hint(WorkerId{0}), 0u);
  EXPECT_EQ(host.arrives_at(7, WorkerId{0}), WorkerId{0});
}

TEST(SynergyCombinations, lose_nothing_whatever_is_on) {
  const uint64_t seed = test_seed(32);
  const auto arrivals = make_arrivals(seed, {.load = 0.9});
  for (uint32_t bits = 0; bits < 8; ++bits) {
    for (const bool chaos : {false, true}) {
      SCOPED_TRACE(bits);
      const Synergy::Config config{.waiting = {.by_type = (bits & 2) != 0},
                                   .migrate_flows = (bits & 1) != 0,
                                   .reserve = (bits & 4) != 0};
      const DriveReport report = drive<Synergy>(config, arrivals, {.seed = seed, .chaos = chaos});
      EXPECT_EQ(report.departures.size() + report.refused.size(), arrivals.size());
      for (const std::string& violation : report.violations) ADD_FAILURE() << violation;
    }
  }
}

}  // namespace
}  // namespace rubato
