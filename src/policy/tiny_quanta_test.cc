// SPDX-License-Identifier: Apache-2.0
#include "policy/tiny_quanta.h"

#include <gtest/gtest.h>

#include <array>

#include "policy/testing/script_host.h"

namespace rubato {
namespace {

using testing::ScriptHost;

QueueRef inbox(uint32_t worker) { return {0, worker}; }

TEST(TinyQuanta, a_request_goes_where_fewest_are_the_one_that_runs_included) {
  ScriptHost<TinyQuanta> host(3);
  std::array<Job, 3> waiting;
  host.push(inbox(0), &waiting[0]);
  host.push(inbox(0), &waiting[1]);
  host.push(inbox(1), &waiting[2]);
  host.set_busy(WorkerId{2}, true);
  host.set_busy(WorkerId{1}, true);
  EXPECT_EQ(TinyQuanta({}).route(Job(), WorkerId{0}, host), inbox(2));
  host.set_busy(WorkerId{1}, false);
  EXPECT_EQ(TinyQuanta({}).route(Job(), WorkerId{1}, host), inbox(1));
  EXPECT_EQ(TinyQuanta({}).route(Job(), WorkerId{2}, host), inbox(2));
}

TEST(TinyQuanta, requests_stay_where_they_were_given) {
  ScriptHost<TinyQuanta> host(2);
  Job job;
  host.push(inbox(0), &job);
  None none;
  EXPECT_EQ(TinyQuanta({}).next(none, WorkerId{1}, host), nullptr);
  EXPECT_EQ(TinyQuanta({}).requeue(job, RequeueReason::kPreempted, WorkerId{1}, host), inbox(1));
  EXPECT_EQ(TinyQuanta({}).next(none, WorkerId{0}, host), &job);
}

TEST(TinyQuanta, cuts_only_if_somebody_waits_at_that_worker) {
  ScriptHost<TinyQuanta> host(2);
  Job job;
  host.push(inbox(0), &job);
  EXPECT_EQ(TinyQuanta({}).expired(Job(), WorkerId{0}, host), SliceDecision::kPreempt);
  EXPECT_EQ(TinyQuanta({}).expired(Job(), WorkerId{1}, host), SliceDecision::kContinue);
  EXPECT_EQ(TinyQuanta({}).quantum(None(), job, host), Nanos::micros(2));
}

}  // namespace
}  // namespace rubato
