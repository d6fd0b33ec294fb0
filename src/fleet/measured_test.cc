// SPDX-License-Identifier: Apache-2.0
#include "fleet/measured.h"

#include <gtest/gtest.h>

#include <string>

#include "fleet/testing/worlds.h"

namespace rubato::fleet {
namespace {

using sim::RunState;

std::string reasons_of(const WorldOutcome& outcome) {
  std::string text;
  for (const std::string& reason : outcome.steadiness.reasons) text += reason + "\n";
  return text;
}

bool has_reason(const WorldOutcome& outcome, const char* part) {
  return reasons_of(outcome).find(part) != std::string::npos;
}

// `load` of four servers with four workers.
WorldSpec loaded(double load, int64_t seconds) {
  return world(servers(4, 4), open_clients("all:exp(1ms):1", load * 16'000), seconds);
}

TEST(Measured, half_load_is_steady) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    WorldSpec spec = loaded(0.5, 5);
    spec.seed = seed;
    const auto got = outcome_of(spec);
    EXPECT_EQ(got.steadiness.verdict, RunState::kSteady) << reasons_of(got);
  }
}

TEST(Measured, more_than_the_capacity_is_overload) {
  const auto got = outcome_of(loaded(1.2, 2));
  EXPECT_EQ(got.steadiness.verdict, RunState::kOverloaded);
  EXPECT_TRUE(has_reason(got, "1.2 of the capacity is offered")) << reasons_of(got);
}

TEST(Measured, a_run_that_is_too_short_for_its_load_is_not_steady) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    WorldSpec spec = loaded(0.99, 3);
    spec.seed = seed;
    EXPECT_EQ(outcome_of(spec).steadiness.verdict, RunState::kNotSteady) << seed;
  }
}

// The fleet has room; one of two groups has not, as a random balancer does not know that.
TEST(Measured, a_group_of_servers_may_be_overloaded_alone) {
  WorldSpec spec = world(servers(9), open_clients("all:exp(1ms):1", 5000), 5);
  spec.servers.push_back(servers(1, 1, 0.4));
  spec.servers[1].name = "weak";
  const auto got = outcome_of(spec);
  EXPECT_EQ(got.steadiness.verdict, RunState::kOverloaded);
  EXPECT_TRUE(has_reason(got, "servers weak: requests come faster")) << reasons_of(got);
}

// Load 0.8 by first attempts; those that time out come again, and their servers work for nobody.
TEST(Measured, retries_alone_can_overload_servers) {
  WorldSpec spec = loaded(0.8, 10);
  spec.clients[0].timeout = Nanos::millis(2);
  spec.clients[0].attempts = 5;
  const auto got = outcome_of(spec);
  EXPECT_EQ(got.steadiness.verdict, RunState::kOverloaded) << reasons_of(got);
}

TEST(Measured, servers_that_refuse_by_plan_are_steady_beyond_their_capacity) {
  WorldSpec spec = loaded(1.3, 10);
  spec.servers[0].setup.refusal_rule = overload::RefusalSettings();
  const auto got = outcome_of(spec);
  EXPECT_NE(got.steadiness.verdict, RunState::kOverloaded) << reasons_of(got);
  EXPECT_GT(got.clients[0].failed, got.clients[0].calls / 10);
}

TEST(Measured, closed_users_cannot_overload) {
  const auto got = outcome_of(world(servers(1), closed_clients("all:exp(1ms):1", 50, Nanos()), 10));
  EXPECT_EQ(got.steadiness.verdict, RunState::kSteady) << reasons_of(got);
}

TEST(Measured, a_policy_that_still_learns_is_not_steady) {
  WorldSpec spec = loaded(0.5, 2);
  spec.servers[0].policy = "darc";
  const auto got = outcome_of(spec);
  EXPECT_EQ(got.steadiness.verdict, RunState::kNotSteady);
  EXPECT_TRUE(has_reason(got, "the policy learns from the first 200000")) << reasons_of(got);
}

// 200 users who all call at once, and think for a second: it takes seconds until they have spread.
TEST(Measured, the_start_up_is_found_and_left_out) {
  WorldSpec spec = world(servers(1), closed_clients("all:exp(9ms):1", 200, Nanos::seconds(2)), 100);
  spec.warmup = 0;
  spec.clients[0].think->shape = ServiceTime::Shape::kFixed;
  const auto got = outcome_of(spec);
  EXPECT_GT(got.start_up, Nanos()) << got.first_batch;
  EXPECT_LE(got.start_up, Nanos::seconds(50));
  EXPECT_EQ(got.measured + got.start_up, spec.length);
  EXPECT_EQ(got.clients[0].latency.count(), got.clients[0].served);
  EXPECT_GT(got.clients[0].left_out.calls, 0u);
}

// What is to change is what the run is for.
TEST(Measured, an_episode_is_no_start_up) {
  WorldSpec spec = loaded(0.5, 4);
  spec.warmup = 0;
  spec.clients[0].surges = {{Nanos::millis(500), Nanos::seconds(1), 4}};
  const auto got = outcome_of(spec);
  EXPECT_EQ(got.start_up, Nanos());
  EXPECT_EQ(got.measured, spec.length);
  EXPECT_EQ(got.clients[0].left_out.calls, 0u);
  EXPECT_GT(got.clients[0].latency.percentile(99), Nanos::millis(50));
}

TEST(Measured, a_run_that_is_stopped_measures_what_there_was) {
  WorldSpec spec = loaded(0.9, 1000);
  for (const double until : {0.0, 0.15}) {
    spec.warmup = 0.1;
    spec.length = until > 0 ? Nanos::seconds(10) : Nanos::seconds(1000);
    auto got = run_world(spec, [until](double done) { return done < until; });
    ASSERT_TRUE(got.ok());
    EXPECT_TRUE(got->stopped);
    EXPECT_EQ(got->measured > Nanos(), until > 0);
    EXPECT_EQ(got->clients[0].calls > 0, until > 0);
    EXPECT_EQ(got->clients[0].calls, got->clients[0].served + got->clients[0].failed +
                                         got->clients[0].unfinished);
  }
}

}  // namespace
}  // namespace rubato::fleet
