// SPDX-License-Identifier: Apache-2.0
#include "policy/flow_migration.h"

#include <gtest/gtest.h>

#include <vector>

#include "policy/sbb.h"
#include "policy/testing/script_host.h"

namespace rubato {
namespace {

using Load = FlowMigration::Load;
using SbbHost = testing::ScriptHost<Sbb>;

constexpr WorkerId kVictim{1};
constexpr WorkerId kThief{2};

Job of_flow(uint64_t flow) {
  Job job;
  job.flow = flow;
  return job;
}

class FlowMigrationTest : public ::testing::Test {
 protected:
  // The victim goes through rounds in which it receives so many requests.
  void rounds(const std::vector<uint32_t>& received) {
    for (const uint32_t count : received) policy.round(victim, kVictim, count, host);
  }
  void overload() { rounds({33, 33, 33, 49, 49, 49}); }
  void runs(uint64_t flow) { policy.running(victim, kVictim, of_flow(flow), host); }
  Load load() { return FlowMigration::load_of(host.hint(kVictim)); }
  bool offers_a_flow() { return host.hint(kVictim) >> 2 != 0; }
  // The thief gets this flow of the victim's.
  void adopt(uint64_t flow) {
    overload();
    rounds({49, 49, 49});
    runs(flow);
    ASSERT_TRUE(policy.adopt(thief, kThief, kVictim, host));
    ASSERT_EQ(host.arrives_at(flow, kVictim), kThief);
  }
  void thief_rounds(uint32_t received = 0) { policy.round(thief, kThief, received, host); }

  FlowMigration policy{{.published = true}};  // 32, 48, 32, 16
  SbbHost host{4};
  FlowMigration::Worker victim;
  FlowMigration::Worker thief;
};

TEST(FlowMigration, three_requests_at_a_time_make_a_worker_busy_and_nine_overloaded) {
  const FlowMigration policy{{}};
  SbbHost host{4};
  FlowMigration::Worker worker;
  const auto load_after_three = [&](uint32_t received) {
    for (int i = 0; i < 3; ++i) policy.round(worker, kVictim, received, host);
    return FlowMigration::load_of(host.hint(kVictim));
  };
  EXPECT_EQ(load_after_three(2), Load::kLight);
  EXPECT_EQ(load_after_three(3), Load::kBusy);
  EXPECT_EQ(load_after_three(8), Load::kBusy);
  EXPECT_EQ(load_after_three(9), Load::kOverloaded);
  EXPECT_EQ(load_after_three(4), Load::kOverloaded);
  EXPECT_EQ(load_after_three(3), Load::kBusy);
  EXPECT_EQ(load_after_three(0), Load::kLight);
}

TEST_F(FlowMigrationTest, three_rounds_above_the_threshold_make_a_worker_busy) {
  rounds({33, 33});
  EXPECT_EQ(load(), Load::kLight);
  rounds({33});
  EXPECT_EQ(load(), Load::kBusy);
}

TEST_F(FlowMigrationTest, the_threshold_itself_is_not_above_it) {
  rounds({32, 32, 32, 32});
  EXPECT_EQ(load(), Load::kLight);
}

TEST_F(FlowMigrationTest, a_round_below_begins_anew) {
  rounds({33, 33, 32, 33, 33});
  EXPECT_EQ(load(), Load::kLight);
  rounds({33});
  EXPECT_EQ(load(), Load::kBusy);
}

TEST_F(FlowMigrationTest, three_rounds_above_the_next_threshold_make_it_overloaded) {
  rounds({64, 64, 64, 49, 49});
  EXPECT_EQ(load(), Load::kBusy);
  rounds({49});
  EXPECT_EQ(load(), Load::kOverloaded);
}

TEST_F(FlowMigrationTest, rounds_that_made_it_busy_do_not_count_again) {
  rounds({64, 64, 64, 64, 64});
  EXPECT_EQ(load(), Load::kBusy);
}

TEST_F(FlowMigrationTest, a_busy_worker_between_the_thresholds_stays_busy) {
  rounds({33, 33, 33});
  rounds({16, 48, 49, 49, 48, 15, 15, 16, 49, 49, 20, 15, 15});
  EXPECT_EQ(load(), Load::kBusy);
}

TEST_F(FlowMigrationTest, three_rounds_below_bring_it_back_step_by_step) {
  overload();
  rounds({31, 31});
  EXPECT_EQ(load(), Load::kOverloaded);
  rounds({31});
  EXPECT_EQ(load(), Load::kBusy);
  rounds({15, 15});
  EXPECT_EQ(load(), Load::kBusy);
  rounds({15});
  EXPECT_EQ(load(), Load::kLight);
}

TEST_F(FlowMigrationTest, an_overloaded_worker_between_the_thresholds_stays_so) {
  overload();
  rounds({31, 31, 32, 31, 31, 48, 0, 0, 40});
  EXPECT_EQ(load(), Load::kOverloaded);
}

TEST_F(FlowMigrationTest, an_overloaded_worker_publishes_the_flow_of_the_next_request_it_runs) {
  rounds({33, 33, 33});
  runs(5);
  EXPECT_FALSE(offers_a_flow());  // Busy is not enough
  overload();
  EXPECT_FALSE(offers_a_flow());
  runs(7);
  EXPECT_TRUE(offers_a_flow());
  EXPECT_EQ(load(), Load::kOverloaded);
  ASSERT_TRUE(policy.adopt(thief, kThief, kVictim, host));
  EXPECT_EQ(host.arrives_at(7, kVictim), kThief);
}

TEST_F(FlowMigrationTest, one_flow_is_published_per_time_it_becomes_overloaded) {
  overload();
  runs(7);
  runs(8);
  ASSERT_TRUE(policy.adopt(thief, kThief, kVictim, host));
  EXPECT_EQ(host.arrives_at(7, kVictim), kThief);
  runs(9);
  EXPECT_FALSE(offers_a_flow());
  EXPECT_FALSE(policy.adopt(thief, kThief, kVictim, host));
}

TEST_F(FlowMigrationTest, another_flow_follows_after_three_more_rounds) {
  adopt(7);
  rounds({49, 49});
  runs(8);
  EXPECT_FALSE(offers_a_flow());
  rounds({49});
  runs(9);
  ASSERT_TRUE(policy.adopt(thief, kThief, kVictim, host));
  EXPECT_EQ(host.arrives_at(9, kVictim), kThief);
}

TEST_F(FlowMigrationTest, flow_zero_is_a_flow) {
  overload();
  runs(0);
  ASSERT_TRUE(policy.adopt(thief, kThief, kVictim, host));
  EXPECT_EQ(host.arrives_at(0, kVictim), kThief);
}

TEST_F(FlowMigrationTest, a_worker_that_is_no_longer_overloaded_offers_nothing) {
  overload();
  rounds({31, 31, 31});
  runs(7);
  EXPECT_FALSE(offers_a_flow());
  overload();
  runs(8);
  ASSERT_TRUE(offers_a_flow());
  rounds({31, 31, 31});  // nobody took it in time
  EXPECT_FALSE(offers_a_flow());
  EXPECT_FALSE(policy.adopt(thief, kThief, kVictim, host));
}

// Both have seen the hint before either has taken it.
struct LateHost : SbbHost {
  using SbbHost::SbbHost;
  uint64_t hint(WorkerId worker) { return worker == kVictim ? seen : SbbHost::hint(worker); }
  uint64_t seen = 0;
};

TEST(FlowMigrationRace, only_one_of_two_thieves_gets_a_flow) {
  const FlowMigration policy{{.published = true}};
  LateHost host{4};
  FlowMigration::Worker first, second;
  host.seen = uint64_t{2} | (7 + 1) << 2;  // Overloaded, flow 7
  ASSERT_TRUE(host.publish_hint(kVictim, 0, host.seen));
  EXPECT_TRUE(policy.adopt(first, kThief, kVictim, host));
  EXPECT_FALSE(policy.adopt(second, WorkerId{3}, kVictim, host));
  EXPECT_EQ(host.arrives_at(7, kVictim), kThief);
  EXPECT_EQ(second.adopted, 0u);
}

// The hint changed under its hands, because the flow was taken; it tries again.
TEST(FlowMigrationRace, a_worker_whose_hint_was_changed_meanwhile_publishes_its_load_later) {
  const FlowMigration policy{{.published = true}};
  LateHost host{4};
  FlowMigration::Worker victim;
  ASSERT_TRUE(host.publish_hint(kVictim, 0, 2));
  host.seen = uint64_t{2} | (7 + 1) << 2;
  for (int i = 0; i < 6; ++i) policy.round(victim, kVictim, 64, host);
  for (int i = 0; i < 3; ++i) policy.round(victim, kVictim, 20, host);
  EXPECT_EQ(host.SbbHost::hint(kVictim), 2u);
  host.seen = 2;
  policy.round(victim, kVictim, 20, host);
  EXPECT_EQ(host.SbbHost::hint(kVictim), 1u);
}

TEST_F(FlowMigrationTest, light_and_busy_workers_give_no_flow) {
  ASSERT_TRUE(host.publish_hint(kVictim, 0, uint64_t{1} | 8 << 2));
  EXPECT_FALSE(policy.adopt(thief, kThief, kVictim, host));
}

TEST_F(FlowMigrationTest, an_adopted_flow_is_not_published_by_its_adopter) {
  adopt(7);
  for (int i = 0; i < 6; ++i) thief_rounds(64);
  policy.running(thief, kThief, of_flow(7), host);
  EXPECT_EQ(host.hint(kThief) >> 2, 0u);
  policy.running(thief, kThief, of_flow(8), host);
  EXPECT_EQ(host.hint(kThief) >> 2, 9u);
}

// Requests of it that came before may still wait here; a second rule would undo the first.
TEST_F(FlowMigrationTest, a_flow_that_somebody_has_taken_is_not_published_while_its_rule_is_young) {
  adopt(7);
  rounds({49, 49, 49});
  runs(7);
  EXPECT_FALSE(offers_a_flow());
  runs(8);
  EXPECT_TRUE(offers_a_flow());
  ASSERT_TRUE(policy.adopt(thief, kThief, kVictim, host));
  host.set_now(Instant() + Nanos::millis(100));
  rounds({49, 49, 49});
  runs(7);
  EXPECT_TRUE(offers_a_flow());
}

TEST_F(FlowMigrationTest, who_had_nothing_to_run_offers_no_flow_before_three_more_rounds) {
  overload();
  policy.idle(victim);
  runs(7);  // stolen
  EXPECT_FALSE(offers_a_flow());
  rounds({49, 49, 49});
  runs(8);
  EXPECT_TRUE(offers_a_flow());
}

TEST_F(FlowMigrationTest, a_flow_that_nobody_took_may_be_published_again) {
  overload();
  runs(7);
  rounds({49, 49, 49});
  runs(8);
  rounds({49, 49, 49});
  runs(7);
  ASSERT_TRUE(policy.adopt(thief, kThief, kVictim, host));
  EXPECT_EQ(host.arrives_at(7, kVictim), kThief);
  EXPECT_EQ(host.arrives_at(8, kVictim), kVictim);
}

TEST_F(FlowMigrationTest, a_rule_goes_when_it_is_old_and_the_flows_worker_is_light) {
  adopt(7);
  host.set_now(Instant() + Nanos::millis(100));
  thief_rounds();
  EXPECT_EQ(host.arrives_at(7, kVictim), kThief);  // old, but the victim is Overloaded
  rounds({0, 0, 0, 0, 0, 0});
  ASSERT_EQ(load(), Load::kLight);
  thief_rounds();
  EXPECT_EQ(host.arrives_at(7, kVictim), kVictim);
  EXPECT_EQ(thief.adopted, 0u);
}

TEST_F(FlowMigrationTest, a_young_rule_stays_even_if_the_flows_worker_is_light) {
  adopt(7);
  rounds({0, 0, 0, 0, 0, 0});
  host.set_now(Instant() + Nanos::millis(100) - Nanos(1));
  thief_rounds();
  EXPECT_EQ(host.arrives_at(7, kVictim), kThief);
}

TEST_F(FlowMigrationTest, a_flow_that_was_sent_home_may_be_published_again) {
  adopt(7);
  rounds({0, 0, 0, 0, 0, 0});
  host.set_now(Instant() + Nanos::millis(100));
  thief_rounds();
  adopt(7);
  EXPECT_EQ(thief.adopted, 1u);
}

TEST_F(FlowMigrationTest, the_oldest_of_too_many_rules_goes) {
  for (uint64_t flow = 0; flow < FlowMigration::kMostAdopted; ++flow) adopt(flow);
  EXPECT_EQ(host.arrives_at(0, kVictim), kThief);
  adopt(100);
  EXPECT_EQ(host.arrives_at(0, kVictim), kVictim);
  for (uint64_t flow = 1; flow < FlowMigration::kMostAdopted; ++flow) {
    EXPECT_EQ(host.arrives_at(flow, kVictim), kThief) << flow;
  }
  EXPECT_EQ(thief.adopted, FlowMigration::kMostAdopted);
}

// A host that can take no rule back while an earlier move is underway.
struct SlowHost : SbbHost {
  using SbbHost::SbbHost;
  bool unsteer(uint64_t flow) { return settled && SbbHost::unsteer(flow); }
  bool settled = false;
};

class RefusedRuleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const uint64_t offer = uint64_t{2} | (7 + 1) << 2;  // Overloaded, flow 7
    ASSERT_TRUE(host.publish_hint(kVictim, 0, offer));
    ASSERT_TRUE(policy.adopt(thief, kThief, kVictim, host));
    ASSERT_TRUE(host.publish_hint(kVictim, 2, 0));
    age();
  }
  // The rules have their life once more.
  void age() {
    now = now + Nanos::millis(100);
    host.set_now(now);
    policy.round(thief, kThief, 0, host);
  }

  FlowMigration policy{{.published = true}};
  SlowHost host{4};
  FlowMigration::Worker thief;
  Instant now;
};

TEST_F(RefusedRuleTest, is_taken_back_when_it_is_old_again) {
  EXPECT_EQ(host.arrives_at(7, kVictim), kThief);
  EXPECT_EQ(thief.adopted, 1u);
  host.settled = true;
  age();
  EXPECT_EQ(host.arrives_at(7, kVictim), kVictim);
  EXPECT_EQ(thief.adopted, 0u);
}

TEST_F(RefusedRuleTest, is_forgotten_at_the_second_refusal) {
  age();
  EXPECT_EQ(thief.adopted, 0u);
}

TEST_F(RefusedRuleTest, makes_room_for_another_flow) {
  for (uint64_t flow = 8; flow < 8 + 3 * FlowMigration::kMostAdopted; ++flow) {
    ASSERT_TRUE(host.publish_hint(kVictim, host.hint(kVictim), uint64_t{2} | (flow + 1) << 2));
    ASSERT_TRUE(policy.adopt(thief, kThief, kVictim, host));
    EXPECT_EQ(host.arrives_at(flow, kVictim), kThief);
  }
  EXPECT_EQ(thief.adopted, FlowMigration::kMostAdopted);
}

// A host that cannot steer flows.
struct FixedHost : SbbHost {
  using SbbHost::SbbHost;
  bool steer(uint64_t, WorkerId) { return false; }
};

TEST(FlowMigrationRace, a_flow_that_cannot_be_steered_is_not_adopted) {
  const FlowMigration policy{{.published = true}};
  FixedHost host{4};
  FlowMigration::Worker thief;
  ASSERT_TRUE(host.publish_hint(kVictim, 0, uint64_t{2} | 8 << 2));
  EXPECT_FALSE(policy.adopt(thief, kThief, kVictim, host));
  EXPECT_EQ(thief.adopted, 0u);
  EXPECT_EQ(FlowMigration::load_of(host.hint(kVictim)), Load::kOverloaded);
}

}  // namespace
}  // namespace rubato
