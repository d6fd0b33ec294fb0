// SPDX-License-Identifier: Apache-2.0
//
// The test hosts themselves: a checker that finds nothing proves nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "policy/archetype.h"
#include "policy/testing/chaos_host.h"
#include "policy/testing/checked_host.h"
#include "policy/testing/script_host.h"
#include "policy/testing/seed.h"

namespace rubato {
namespace {

using testing::ChaosHost;
using testing::CheckedHost;
using testing::ScriptHost;
using testing::HookContext;
using testing::test_seed;

// One queue of each kind.
struct Topology {
  static constexpr const char* kName = "topology";
  static constexpr const char* kSummary = "";
  static constexpr const char* kSource = "";
  static constexpr Preempts kPreempts = Preempts::kNothing;
  static constexpr std::array<QueueDeclaration, 4> kQueues{{
      {"owned", Scope::kPerWorker, Sharing::kOwner},
      {"stealable", Scope::kPerWorker, Sharing::kStealable},
      {"shared", Scope::kGlobal, Sharing::kShared, 2},
      {.name = "ordered", .scope = Scope::kGlobal, .sharing = Sharing::kShared,
       .order = Order::kByWord},
  }};
  using Config = None;
  using Worker = None;
  using Central = None;
  using Plan = None;
  explicit constexpr Topology(Config) {}
};

using Script = ScriptHost<Topology>;
using Chaos = ChaosHost<Topology, Script>;
using Checked = CheckedHost<Topology, Script>;

template <class H>
concept FullHost = Host<H, None> && ManagedHost<H> && SteeringHost<H>;
static_assert(FullHost<Script> && FullHost<Chaos> && FullHost<Checked>);

constexpr QueueRef owned(uint32_t worker) { return {0, worker}; }
constexpr QueueRef stealable(uint32_t worker) { return {1, worker}; }
constexpr QueueRef shared(uint32_t index) { return {2, index}; }
constexpr QueueRef kOrdered{3, 0};

TEST(ScriptHost, queues_are_first_in_first_out_and_count_what_passes) {
  Script host(2);
  Job first, second;
  EXPECT_EQ(host.take(shared(1)), nullptr);
  EXPECT_TRUE(host.put(shared(1), &first));
  EXPECT_TRUE(host.put(shared(1), &second));
  EXPECT_EQ(host.depth(shared(1)), 2u);
  EXPECT_EQ(host.take(shared(1)), &first);
  EXPECT_EQ(host.produced(shared(1)), 2u);
  EXPECT_EQ(host.consumed(shared(1)), 1u);
  EXPECT_EQ(host.depth(shared(0)), 0u);
}

TEST(ScriptHost, an_ordered_queue_gives_the_smallest_word_first_and_of_equal_ones_the_first_put) {
  Script host(1);
  EXPECT_EQ(host.first_word(kOrdered), kNoWord);
  std::array<Job, 4> jobs;
  for (const uint64_t word : {5u, 3u, 5u, 3u}) {
    Job& job = jobs[host.produced(kOrdered)];
    job.policy_word = word;
    ASSERT_TRUE(host.put(kOrdered, &job));
  }
  EXPECT_EQ(host.first_word(kOrdered), 3u);
  for (const size_t next : {1u, 3u, 0u, 2u}) EXPECT_EQ(host.take(kOrdered), &jobs[next]);
}

TEST(ScriptHost, a_full_queue_refuses) {
  Script host(1);
  host.set_capacity(1);
  Job first, second;
  EXPECT_TRUE(host.put(owned(0), &first));
  EXPECT_FALSE(host.put(owned(0), &second));
}

TEST(ScriptHost, verbs_are_recorded_with_the_queue_s_name) {
  Script host(2);
  host.record_verbs();
  host.take(stealable(1));
  host.depth(shared(0));
  EXPECT_EQ(host.verbs(), (std::vector<std::string>{"take stealable[1]", "depth shared[0]"}));
}

class CheckedHostTest : public ::testing::Test {
 protected:
  void expect_violation(const std::string& part) {
    ASSERT_EQ(host.violations().size(), 1u);
    EXPECT_NE(host.violations()[0].find(part), std::string::npos) << host.violations()[0];
  }
  void sit_at(uint32_t worker) { host.call_as(HookContext::worker(WorkerId{worker})); }
  void enter(QueueRef q, Job& job, uint32_t worker = 0) {
    sit_at(worker);
    host.admit(&job);
    ASSERT_TRUE(host.put(q, &job));
  }

  Script script{2};
  Checked host{script, 3};
};

TEST_F(CheckedHostTest, a_decent_life_is_no_violation) {
  Job job, other;
  enter(stealable(0), job);
  enter(stealable(0), other);
  sit_at(1);
  EXPECT_EQ(host.steal(stealable(0), stealable(1), 2), &job);
  EXPECT_EQ(host.take(stealable(1)), &other);
  EXPECT_TRUE(host.put(shared(0), &job));
  host.call_as(HookContext::central());
  EXPECT_EQ(host.take(shared(0)), &job);
  host.retire(&job);
  EXPECT_EQ(host.inside(), 1u);
  EXPECT_TRUE(host.violations().empty());
}

TEST_F(CheckedHostTest, an_owned_queue_is_its_worker_s_alone) {
  Job job;
  enter(owned(0), job);
  sit_at(1);
  EXPECT_EQ(host.take(owned(0)), nullptr);
  expect_violation("take from owned[0] from the wrong seat");
}

TEST_F(CheckedHostTest, an_owned_queue_may_not_be_stolen_from) {
  Job job;
  enter(owned(0), job);
  sit_at(1);
  EXPECT_EQ(host.steal(owned(0), stealable(1), 1), nullptr);
  expect_violation("wrong seat");
}

TEST_F(CheckedHostTest, only_its_worker_puts_into_a_stealable_queue) {
  Job job;
  sit_at(1);
  host.admit(&job);
  EXPECT_FALSE(host.put(stealable(0), &job));
  expect_violation("put into stealable[0] from the wrong seat");
}

TEST_F(CheckedHostTest, an_observer_may_only_look) {
  Job job;
  enter(shared(0), job);
  host.call_as(HookContext::observer());
  EXPECT_EQ(host.depth(shared(0)), 1u);
  EXPECT_TRUE(host.violations().empty());
  EXPECT_EQ(host.take(shared(0)), nullptr);
  expect_violation("from the wrong seat");
}

TEST_F(CheckedHostTest, a_job_may_not_be_put_twice) {
  Job job;
  enter(shared(0), job);
  EXPECT_FALSE(host.put(shared(1), &job));
  expect_violation("not held");
}

TEST_F(CheckedHostTest, a_job_that_the_host_doubled_is_noticed) {
  Job job;
  enter(shared(0), job);
  script.push(shared(1), &job);
  host.take(shared(0));
  host.take(shared(1));
  expect_violation("doubled at shared[1]");
}

TEST_F(CheckedHostTest, a_queue_that_was_not_declared_is_noticed) {
  sit_at(0);
  host.depth(QueueRef{4, 0});
  expect_violation("not declared");
}

TEST_F(CheckedHostTest, a_lane_that_does_not_exist_is_noticed) {
  sit_at(0);
  host.take(shared(2));
  expect_violation("no lane shared[2]");
}

TEST_F(CheckedHostTest, the_first_word_of_a_queue_without_that_order_is_noticed) {
  sit_at(0);
  EXPECT_EQ(host.first_word(kOrdered), kNoWord);
  EXPECT_TRUE(host.violations().empty());
  host.first_word(shared(0));
  expect_violation("no such order");
}

TEST_F(CheckedHostTest, a_batch_does_not_go_into_an_ordered_queue) {
  Job job;
  enter(stealable(0), job);
  EXPECT_EQ(host.steal(stealable(0), kOrdered, 2), nullptr);
  expect_violation("steal from stealable[0] into ordered[0]");
}

TEST_F(CheckedHostTest, an_oversized_steal_is_noticed) {
  sit_at(0);
  host.steal(stealable(1), stealable(0), limits::kStealMax + 1);
  expect_violation("steal of");
}

TEST_F(CheckedHostTest, a_hook_that_does_not_stop_is_noticed_once) {
  sit_at(0);
  for (int i = 0; i < 1000; ++i) host.depth(shared(0));
  expect_violation("verbs");
}

TEST_F(CheckedHostTest, a_job_that_others_pass_too_often_starves) {
  Job left_behind;
  enter(shared(1), left_behind);
  std::array<Job, 4> others;
  for (Job& other : others) {
    enter(shared(0), other);
    host.take(shared(0));
  }
  EXPECT_TRUE(host.violations().empty());
  host.take(shared(1));
  expect_violation("starved");
  EXPECT_EQ(host.longest_passed_over(), 4u);
}

TEST_F(CheckedHostTest, leaving_without_being_held_is_noticed) {
  Job job;
  enter(shared(0), job);
  host.retire(&job);
  expect_violation("not held");
}

TEST(ChaosHost, everything_goes_wrong_sometimes_and_nothing_is_lost) {
  Script script(2);
  Chaos host(script, test_seed(31));
  std::vector<Job> jobs(500);
  size_t refused = 0;
  for (Job& job : jobs) refused += host.put(shared(0), &job) ? 0u : 1u;
  EXPECT_GT(refused, 0u);
  size_t lost_races = 0;
  size_t taken = 0;
  size_t stale = 0;
  while (!script.waiting(shared(0)).empty()) {
    stale += host.depth(shared(0)) != script.waiting(shared(0)).size() ? 1u : 0u;
    (host.take(shared(0)) == nullptr ? lost_races : taken) += 1;
  }
  EXPECT_GT(lost_races, 0u);
  EXPECT_GT(stale, 0u);
  EXPECT_EQ(taken + refused, jobs.size());
}

TEST(ChaosHost, a_steal_may_bring_fewer_than_asked_but_keeps_all) {
  const uint64_t seed = test_seed(32);
  size_t shorter = 0;
  for (uint64_t round = 0; round < 100; ++round) {
    Script script(2);
    Chaos host(script, seed + round);
    std::vector<Job> jobs(8);
    for (Job& job : jobs) script.push(stealable(0), &job);
    const bool stolen = host.steal(stealable(0), stealable(1), 8) != nullptr;
    const size_t moved = script.waiting(stealable(1)).size() + (stolen ? 1 : 0);
    EXPECT_EQ(moved + script.waiting(stealable(0)).size(), jobs.size());
    shorter += stolen && moved < 8 ? 1u : 0u;
  }
  EXPECT_GT(shorter, 0u);
}

TEST(ChaosHost, old_indices_never_go_back) {
  Script script(1);
  Chaos host(script, test_seed(33));
  std::vector<Job> jobs(200);
  uint64_t last = 0;
  for (Job& job : jobs) {
    script.push(shared(0), &job);
    const uint64_t told = host.produced(shared(0));
    EXPECT_GE(told, last);
    last = told;
  }
}

TEST(ChaosHost, same_seed_same_mishaps) {
  const uint64_t seed = test_seed(34);
  std::array<uint64_t, 2> mishaps{};
  for (uint64_t& count : mishaps) {
    Script script(1);
    Chaos host(script, seed);
    Job job;
    for (int i = 0; i < 100; ++i) {
      host.put(shared(0), &job);
      host.take(shared(0));
    }
    count = host.mishaps();
  }
  EXPECT_EQ(mishaps[0], mishaps[1]);
}

}  // namespace
}  // namespace rubato
