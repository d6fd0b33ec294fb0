// SPDX-License-Identifier: Apache-2.0
#include "policy/las.h"

#include <gtest/gtest.h>

#include "policy/testing/script_host.h"

namespace rubato {
namespace {

using testing::ScriptHost;

class LasTest : public ::testing::Test {
 protected:
  static Job served(Nanos attained) {
    Job job;
    job.attained = attained;
    return job;
  }
  void arrive(Job& job) { host_.push(hook::route(policy_, job, WorkerId{0}, host_), &job); }
  void put_back(Job& job) {
    host_.push(hook::requeue(policy_, job, RequeueReason::kPreempted, WorkerId{0}, host_), &job);
  }
  Job* next() {
    None none;
    return policy_.next(none, WorkerId{0}, host_);
  }

  const Las policy_{{}};
  ScriptHost<Las> host_{1};
};

TEST_F(LasTest, who_was_served_for_the_shortest_time_comes_first) {
  Job older = served(Nanos(900)), younger = served(Nanos(200)), fresh, fresher;
  put_back(older);
  put_back(younger);
  arrive(fresh);
  arrive(fresher);
  for (Job* const job : {&fresh, &fresher, &younger, &older}) EXPECT_EQ(next(), job);
}

TEST_F(LasTest, a_request_is_cut_only_for_one_that_was_served_for_a_shorter_time) {
  Job waiting = served(Nanos(500));
  EXPECT_EQ(policy_.expired(served(Nanos(900)), WorkerId{0}, host_), SliceDecision::kContinue);
  put_back(waiting);
  EXPECT_EQ(policy_.expired(served(Nanos(900)), WorkerId{0}, host_), SliceDecision::kPreempt);
  EXPECT_EQ(policy_.expired(served(Nanos(500)), WorkerId{0}, host_), SliceDecision::kContinue);
}

}  // namespace
}  // namespace rubato
