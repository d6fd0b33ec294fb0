// SPDX-License-Identifier: Apache-2.0
#include "policy/steal.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "policy/testing/script_host.h"

namespace rubato {
namespace {

using testing::ScriptHost;

constexpr QueueRef inbox(uint32_t worker) { return {0, worker}; }

Job* next(ScriptHost<Steal>& host, uint32_t me) {
  None worker;
  return Steal({}).next(worker, WorkerId{me}, host);
}

TEST(Steal, own_inbox_comes_first) {
  ScriptHost<Steal> host(2);
  Job own, foreign;
  host.push(inbox(0), &own);
  host.push(inbox(1), &foreign);
  host.record_verbs();
  EXPECT_EQ(next(host, 0), &own);
  EXPECT_EQ(host.verbs(), std::vector<std::string>{"take inbox[0]"});
}

TEST(Steal, takes_half_rounded_up_and_keeps_the_order) {
  ScriptHost<Steal> host(2);
  std::array<Job, 5> jobs;
  for (Job& job : jobs) host.push(inbox(1), &job);
  EXPECT_EQ(next(host, 0), &jobs[0]);
  EXPECT_EQ(host.waiting(inbox(0)), (std::deque<Job*>{&jobs[1], &jobs[2]}));
  EXPECT_EQ(host.waiting(inbox(1)), (std::deque<Job*>{&jobs[3], &jobs[4]}));
}

TEST(Steal, a_single_waiting_job_is_stolen_too) {
  ScriptHost<Steal> host(2);
  Job job;
  host.push(inbox(1), &job);
  EXPECT_EQ(next(host, 0), &job);
}

TEST(Steal, a_batch_is_bounded) {
  ScriptHost<Steal> host(2);
  std::vector<Job> jobs(4 * limits::kStealMax);
  for (Job& job : jobs) host.push(inbox(1), &job);
  EXPECT_EQ(next(host, 0), &jobs[0]);
  EXPECT_EQ(host.waiting(inbox(0)).size(), limits::kStealMax - 1);
}

TEST(Steal, the_only_victim_with_work_is_found_from_every_start) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    ScriptHost<Steal> host(6, seed);
    Job job;
    host.push(inbox(4), &job);
    EXPECT_EQ(next(host, 1), &job) << "seed " << seed;
  }
}

TEST(Steal, thieves_do_not_all_start_at_the_same_victim) {
  std::set<Job*> first_stolen;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    ScriptHost<Steal> host(4, seed);
    static std::array<Job, 4> jobs;
    for (uint32_t worker = 1; worker < 4; ++worker) host.push(inbox(worker), &jobs[worker]);
    first_stolen.insert(next(host, 0));
  }
  EXPECT_EQ(first_stolen.size(), 3u);
}

// The walk goes round the ring, past the thief itself.
TEST(Steal, every_inbox_is_looked_at_once) {
  ScriptHost<Steal> host(4);
  host.record_verbs();
  EXPECT_EQ(next(host, 2), nullptr);
  const std::set<std::string> tried(host.verbs().begin(), host.verbs().end());
  EXPECT_EQ(tried, (std::set<std::string>{"take inbox[2]", "depth inbox[0]", "depth inbox[1]",
                                          "depth inbox[2]", "depth inbox[3]"}));
  EXPECT_EQ(host.verbs().size(), 5u);
}

TEST(Steal, a_lone_worker_has_nobody_to_steal_from) {
  ScriptHost<Steal> host(1);
  EXPECT_EQ(next(host, 0), nullptr);
}

}  // namespace
}  // namespace rubato
