// SPDX-License-Identifier: Apache-2.0
#include "policy/srpt.h"

#include <gtest/gtest.h>

#include "policy/testing/script_host.h"

namespace rubato {
namespace {

using testing::ScriptHost;

class SrptTest : public ::testing::Test {
 protected:
  static Job job(Nanos size, Nanos attained = Nanos()) {
    Job job;
    job.size_hint = size;
    job.attained = attained;
    return job;
  }
  void arrive(Job& job) { host_.push(policy_.route(job, WorkerId{0}, host_), &job); }
  Job* next() {
    None none;
    return policy_.next(none, WorkerId{0}, host_);
  }
  SliceDecision expired(const Job& job) { return policy_.expired(job, WorkerId{0}, host_); }

  const Srpt policy_{{}};
  ScriptHost<Srpt> host_{1};
};

TEST_F(SrptTest, who_needs_the_least_more_comes_first) {
  Job longer = job(Nanos(900)), shorter = job(Nanos(200)), begun = job(Nanos(1000), Nanos(900));
  arrive(longer);
  arrive(shorter);
  host_.push(hook::requeue(policy_, begun, RequeueReason::kPreempted, WorkerId{0}, host_), &begun);
  for (Job* const job : {&begun, &shorter, &longer}) EXPECT_EQ(next(), job);
}

TEST_F(SrptTest, a_request_is_cut_only_for_one_that_needs_less) {
  EXPECT_EQ(expired(job(Nanos(900))), SliceDecision::kContinue);
  Job waiting = job(Nanos(300));
  arrive(waiting);
  EXPECT_EQ(expired(job(Nanos(900), Nanos(500))), SliceDecision::kPreempt);
  EXPECT_EQ(expired(job(Nanos(900), Nanos(600))), SliceDecision::kContinue);
}

TEST_F(SrptTest, one_beyond_its_hint_is_as_far_from_its_end_as_it_is_beyond) {
  Job waiting = job(Nanos(300));
  arrive(waiting);
  EXPECT_EQ(expired(job(Nanos(100), Nanos(350))), SliceDecision::kContinue);
  EXPECT_EQ(expired(job(Nanos(100), Nanos(450))), SliceDecision::kPreempt);
}

TEST_F(SrptTest, unknown_sizes_come_last_in_order_of_arrival_and_give_way_to_known_ones) {
  Job first, second, known = job(Nanos::seconds(100));
  arrive(first);
  arrive(second);
  EXPECT_EQ(expired(Job()), SliceDecision::kContinue);
  arrive(known);
  EXPECT_EQ(expired(Job()), SliceDecision::kPreempt);
  for (Job* const job : {&known, &first, &second}) EXPECT_EQ(next(), job);
}

}  // namespace
}  // namespace rubato
