// SPDX-License-Identifier: Apache-2.0
#include "policy/zygos.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

#include "policy/testing/script_host.h"

namespace rubato {
namespace {

using testing::ScriptHost;

constexpr QueueRef inbox(uint32_t worker) { return {0, worker}; }

Job* next(ScriptHost<Zygos>& host, uint32_t me) {
  None worker;
  return Zygos({}).next(worker, WorkerId{me}, host);
}

TEST(Zygos, own_inbox_comes_first) {
  ScriptHost<Zygos> host(2);
  Job own, foreign;
  host.push(inbox(0), &own);
  host.push(inbox(1), &foreign);
  host.record_verbs();
  EXPECT_EQ(next(host, 0), &own);
  EXPECT_EQ(host.verbs(), std::vector<std::string>{"take inbox[0]"});
}

TEST(Zygos, takes_one_request_from_the_head_and_leaves_the_others) {
  ScriptHost<Zygos> host(2);
  std::array<Job, 5> jobs;
  for (Job& job : jobs) host.push(inbox(1), &job);
  EXPECT_EQ(next(host, 0), &jobs[0]);
  EXPECT_TRUE(host.waiting(inbox(0)).empty());
  EXPECT_EQ(host.waiting(inbox(1)).size(), 4u);
}

TEST(Zygos, the_only_victim_with_work_is_found) {
  for (uint32_t me : {0u, 1u, 5u}) {
    ScriptHost<Zygos> host(6);
    Job job;
    host.push(inbox(4), &job);
    EXPECT_EQ(next(host, me), &job);
  }
}

// Workers 1, 2 and 7 of 8: by a walk from a random start, 7 would be found five times in seven.
TEST(Zygos, each_worker_that_holds_something_is_as_likely_a_victim) {
  constexpr int kRuns = 3000;
  std::array<Job, 8> jobs;
  std::map<Job*, int> stolen;
  for (uint64_t seed = 0; seed < kRuns; ++seed) {
    ScriptHost<Zygos> host(8, seed);
    for (const uint32_t worker : {1u, 2u, 7u}) host.push(inbox(worker), &jobs[worker]);
    ++stolen[next(host, 0)];
  }
  // 1000 each; three standard deviations are 77.
  for (const uint32_t worker : {1u, 2u, 7u}) EXPECT_NEAR(stolen[&jobs[worker]], kRuns / 3, 80);
}

TEST(Zygos, nobody_else_or_nothing_there_means_nothing_to_do) {
  ScriptHost<Zygos> alone(1), idle(4);
  EXPECT_EQ(next(alone, 0), nullptr);
  EXPECT_EQ(next(idle, 2), nullptr);
}

}  // namespace
}  // namespace rubato
