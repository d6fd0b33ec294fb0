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

// The last of three workers is the dispatcher.
class ConservingConcordTest : public ::testing::Test {
 protected:
  static constexpr WorkerId kDispatcher{2};

  Job* next(WorkerId worker) {
    None none;
    return concord_.next(none, worker, host_);
  }

  const Concord concord_{{.k = 1, .conserves = true}};
  ScriptHost<Concord> host_{3};
  std::array<Job, 4> jobs_;
};

TEST_F(ConservingConcordTest, the_dispatcher_hands_out_before_it_serves) {
  for (Job& job : jobs_) host_.push(kCentral, &job);
  EXPECT_EQ(next(kDispatcher), nullptr);
  Concord::Central central;
  concord_.dispatch(central, host_);
  EXPECT_EQ(host_.waiting(local(0)), (std::deque<Job*>{&jobs_[0]}));
  EXPECT_EQ(host_.waiting(local(1)), (std::deque<Job*>{&jobs_[1]}));
  EXPECT_EQ(host_.waiting(local(2)), (std::deque<Job*>{}));
  EXPECT_EQ(next(kDispatcher), &jobs_[2]);
}

TEST_F(ConservingConcordTest, what_the_dispatcher_has_begun_it_serves_to_the_end) {
  host_.push(kCentral, &jobs_[0]);
  EXPECT_EQ(concord_.expired(jobs_[1], kDispatcher, host_), SliceDecision::kContinue);
  EXPECT_EQ(concord_.expired(jobs_[1], kMe, host_), SliceDecision::kPreempt);
}

}  // namespace
}  // namespace rubato
