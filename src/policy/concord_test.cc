// SPDX-License-Identifier: Apache-2.0
#include "policy/concord.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>

#include "policy/testing/script_host.h"

namespace rubato {
namespace {

using testing::ScriptHost;

constexpr QueueRef kCentral{0, 0};
constexpr WorkerId kMe{0};
QueueRef local(uint32_t worker) { return {1, worker}; }

class ConcordTest : public ::testing::Test {
 protected:
  SliceDecision expired() { return Concord({}).expired(jobs_[0], kMe, host_); }

  ScriptHost<Concord> host_{2};
  std::array<Job, 4> jobs_;
};

TEST_F(ConcordTest, a_slice_ends_if_a_request_waits_at_its_worker_or_at_the_dispatcher) {
  EXPECT_EQ(expired(), SliceDecision::kContinue);
  host_.push(local(1), &jobs_[1]);
  EXPECT_EQ(expired(), SliceDecision::kContinue);
  host_.push(kCentral, &jobs_[2]);
  EXPECT_EQ(expired(), SliceDecision::kPreempt);
}

TEST_F(ConcordTest, what_was_cut_waits_behind_all_others_for_any_worker) {
  EXPECT_EQ(Concord({}).requeue(jobs_[0], RequeueReason::kPreempted, kMe, host_), kCentral);
}

TEST_F(ConcordTest, requests_are_handed_out_as_by_jbsq) {
  for (Job& job : jobs_) host_.push(kCentral, &job);
  host_.set_busy(kMe, true);
  Concord::Central central;
  Concord({}).dispatch(central, host_);
  EXPECT_EQ(host_.waiting(local(1)), (std::deque<Job*>{&jobs_[0], &jobs_[2]}));
  EXPECT_EQ(host_.waiting(local(0)), (std::deque<Job*>{&jobs_[1]}));
}

}  // namespace
}  // namespace rubato
