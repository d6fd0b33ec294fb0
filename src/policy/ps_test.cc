// SPDX-License-Identifier: Apache-2.0
#include "policy/ps.h"

#include <gtest/gtest.h>

#include <array>

#include "policy/testing/drive.h"
#include "policy/testing/script_host.h"

namespace rubato {
namespace {

using testing::Arrival;
using testing::drive;
using testing::DriveReport;
using testing::ScriptHost;

constexpr QueueRef kGlobal{0, 0};

TEST(Ps, every_slice_has_the_configured_quantum) {
  ScriptHost<Ps> host(1);
  Job short_job;
  Job long_job;
  long_job.job_class = JobClass::kLong;
  EXPECT_EQ(Ps({}).quantum(None(), short_job, host), Nanos::micros(10));
  EXPECT_EQ(Ps({.quantum = Nanos::micros(3)}).quantum(None(), long_job, host), Nanos::micros(3));
}

TEST(Ps, cuts_only_if_somebody_waits) {
  ScriptHost<Ps> host(1);
  EXPECT_EQ(Ps({}).expired(Job(), WorkerId{0}, host), SliceDecision::kContinue);
  Job waiting;
  host.push(kGlobal, &waiting);
  EXPECT_EQ(Ps({}).expired(Job(), WorkerId{0}, host), SliceDecision::kPreempt);
}

TEST(Ps, a_preempted_job_goes_back_to_the_tail_of_all) {
  ScriptHost<Ps> host(3);
  Job job;
  EXPECT_EQ(hook::requeue(Ps({}), job, RequeueReason::kPreempted, WorkerId{2}, host), kGlobal);
}

TEST(Ps, jobs_share_a_worker_in_turns_of_one_quantum) {
  const std::array<Arrival, 2> arrivals{
      {{.service = Nanos::micros(25)}, {.service = Nanos::micros(15)}}};
  const DriveReport report = drive<Ps>({}, arrivals, {.workers = 1});
  ASSERT_EQ(report.departures.size(), 2u);
  // 0: first, 10: second, 20: first, 30: second is done at 35, first at 40.
  EXPECT_EQ(report.departures[0].arrival, 1u);
  EXPECT_EQ(report.departures[0].at, Instant() + Nanos::micros(35));
  EXPECT_EQ(report.departures[1].at, Instant() + Nanos::micros(40));
  EXPECT_EQ(report.preemptions, 3u);
}

TEST(Ps, a_short_job_overtakes_a_long_one) {
  const std::array<Arrival, 2> arrivals{
      {{.service = Nanos::millis(1)}, {.at = Instant(5'000), .service = Nanos::micros(2)}}};
  const DriveReport report = drive<Ps>({}, arrivals, {.workers = 1});
  EXPECT_EQ(report.departures[0].arrival, 1u);
  EXPECT_EQ(report.departures[0].at, Instant() + Nanos::micros(12));
}

}  // namespace
}  // namespace rubato
