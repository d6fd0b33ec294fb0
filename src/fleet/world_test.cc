// SPDX-License-Identifier: Apache-2.0
#include "fleet/world.h"

#include <gtest/gtest.h>

#include "fleet/testing/worlds.h"

namespace rubato::fleet {
namespace {

TEST(World, the_same_spec_gives_the_same_outcome_and_another_seed_another) {
  WorldSpec spec = world(servers(3, 2), open_clients("high-bimodal", 50'000), 1);
  spec.clients[0].balancing = Balancing::kPrequal;
  spec.clients[0].rtt = Nanos::micros(50);
  const auto one = outcome_of(spec), two = outcome_of(spec);
  EXPECT_EQ(one.clients[0].latency.sum_ns(), two.clients[0].latency.sum_ns());
  spec.seed = 2;
  EXPECT_NE(outcome_of(spec).clients[0].latency.sum_ns(), one.clients[0].latency.sum_ns());
}

TEST(World, every_call_is_accounted_for) {
  WorldSpec spec = world(servers(2, 1), open_clients("all:exp(1ms):1", 2500), 4);
  ClientGroup& group = spec.clients[0];
  group.timeout = Nanos::millis(30);
  group.attempts = 3;
  group.rtt = Nanos::millis(2);
  group.fan_out = 2;
  spec.clients.push_back(closed_clients("other:exp(2ms):1", 5, Nanos::millis(50)));
  const auto got = outcome_of(spec);
  uint64_t attempts = 0, answers = 0;
  for (const GroupOutcome& one : got.clients) {
    EXPECT_EQ(one.calls, one.served + one.failed);
    EXPECT_EQ(one.unfinished, 0u);
    EXPECT_EQ(one.latency.count(), one.served);
    EXPECT_EQ(one.attempts, one.requests + one.retries + one.hedges);
    attempts += one.attempts + one.left_out.attempts;
  }
  for (const ServerOutcome& server : got.servers) {
    answers += server.served + server.refused + server.lost;
  }
  EXPECT_LE(answers, attempts);  // some are inside when the last call has ended
  EXPECT_GT(answers, attempts / 2);
  EXPECT_GT(got.clients[0].timeouts, 0u);
}

// 5 us there, 10 us of service, 5 us back.
TEST(World, a_call_takes_a_round_trip_and_its_service) {
  ClientGroup group = open_clients("all:10us:1", 1000);
  group.rtt = Nanos::micros(10);
  const auto got = outcome_of(world(servers(1), group, 1));
  EXPECT_EQ(got.clients[0].latency.min(), Nanos::micros(20));
}

TEST(World, a_faster_server_serves_in_less_time_and_a_slow_episode_in_more) {
  WorldSpec spec = world(servers(1, 1, 2), open_clients("all:10us:1", 1000), 2);
  spec.warmup = 0;
  spec.servers[0].slow = {{Nanos::seconds(1), Nanos::seconds(2), 0.1}};
  const auto got = outcome_of(spec);
  EXPECT_EQ(got.clients[0].latency.min(), Nanos::micros(5));
  const auto& slices = got.clients[0].slices;
  EXPECT_GT(slices[1].latency_ns, 8 * slices[0].latency_ns);
}

// Workers of half the speed take twice as long, and one of them beside a fast one adds half.
TEST(World, a_server_may_have_slow_workers) {
  ServerGroup group = servers(1, 2);
  group.setup.worker_speeds = {0.5, 0.5};
  WorldSpec spec = world(group, open_clients("all:exp(1ms):1", 500), 200);
  // M/M/2 of services of 2 ms at half load: 2 / (1 - 0.25) ms.
  const auto slow = outcome_of(spec);
  EXPECT_NEAR(mean_ms(slow), 2 / 0.75, 0.05);
  EXPECT_NEAR(slow.servers[0].busy_share, 0.5, 0.01);
  spec.servers[0].setup.worker_speeds = {1, 0.5};
  spec.clients[0].workload.rate = 3000;
  const auto full = outcome_of(spec);
  EXPECT_EQ(full.steadiness.verdict, sim::RunState::kOverloaded);
  EXPECT_NEAR(full.servers[0].busy_share, 1, 0.001);
  const double served = static_cast<double>(full.servers[0].served) / full.simulated.seconds();
  EXPECT_NEAR(served, 1500, 15);
}

// One of forty servers is slow: a copy of the few requests that take long avoids most of it (Dean
// and Barroso, "The Tail at Scale", CACM 2013).
TEST(World, hedges_cut_the_tail_that_single_servers_make_for_few_more_requests) {
  WorldSpec spec = world(servers(39, 1), open_clients("all:100us:1", 20'000), 4);
  spec.servers.push_back(servers(1, 4, 0.02));
  spec.clients[0].balancing = Balancing::kRandom;
  const auto plain = outcome_of(spec);
  spec.clients[0].hedge_after = Nanos::millis(1);
  spec.clients[0].hedge_budget = 0.05;
  const auto hedged = outcome_of(spec);
  const auto p99 = [](const WorldOutcome& outcome) {
    return outcome.clients[0].latency.percentile(99).micros();
  };
  EXPECT_GT(p99(plain), 4000);
  EXPECT_LT(p99(hedged), 2000);
  EXPECT_LT(static_cast<double>(hedged.clients[0].hedges),
            0.051 * static_cast<double>(hedged.clients[0].requests));
}

// The copy that came second is taken back.
TEST(World, hedges_that_are_cancelled_leave_no_work_behind) {
  WorldSpec spec = world(servers(10, 1), open_clients("all:exp(1ms):1", 6000), 4);
  ClientGroup& group = spec.clients[0];
  group.hedge_after = Nanos::millis(2);
  group.hedge_budget = 1;
  group.rtt = Nanos::micros(100);
  const auto kept = outcome_of(spec);
  group.cancels = true;
  const auto cancelled = outcome_of(spec);
  EXPECT_EQ(kept.clients[0].cancelled, 0u);
  EXPECT_LE(cancelled.clients[0].cancelled, cancelled.clients[0].hedges);
  EXPECT_GT(cancelled.clients[0].cancelled, cancelled.clients[0].hedges / 2);
  EXPECT_LT(cancelled.clients[0].wasted, kept.clients[0].wasted);
  EXPECT_LT(cancelled.clients[0].latency.percentile(99), kept.clients[0].latency.percentile(99));
  for (const GroupOutcome& one : cancelled.clients) EXPECT_EQ(one.calls, one.served + one.failed);
}

TEST(World, servers_stall_as_their_machine_does) {
  WorldSpec spec = world(servers(4), open_clients("all:100us:1", 20'000), 2);
  const auto plain = outcome_of(spec);
  spec.servers[0].setup.costs.stalls.every = Nanos::millis(100);
  spec.servers[0].setup.costs.stalls.length = Nanos::millis(5);
  const auto stalled = outcome_of(spec);
  EXPECT_EQ(stalled.clients[0].served, plain.clients[0].served);
  EXPECT_LT(plain.clients[0].latency.percentile(99), Nanos::millis(1));
  EXPECT_GT(stalled.clients[0].latency.percentile(99), Nanos::millis(3));
}

// A quarter of the servers has a fifth of the speed.
TEST(World, balancers_that_look_spare_slow_servers) {
  WorldSpec spec = world(servers(15, 4), open_clients("all:exp(1ms):1", 38'400), 4);
  spec.servers.push_back(servers(5, 4, 0.2));
  spec.clients[0].machines = 4;
  spec.clients[0].rtt = Nanos::micros(200);
  const auto p99_of = [&spec](Balancing how) {
    spec.clients[0].balancing = how;
    return outcome_of(spec).clients[0].latency.percentile(99).micros();
  };
  const double random = p99_of(Balancing::kRandom);
  EXPECT_LT(p99_of(Balancing::kLeastRequests), random / 4);
  EXPECT_LT(p99_of(Balancing::kTwoChoices), random / 2);
  EXPECT_LT(p99_of(Balancing::kPrequal), random / 4);
  EXPECT_LT(p99_of(Balancing::kWeights), random);
}

// Levels of `synergy`: of long requests those of a better priority go first (section 7.4).
TEST(World, requests_have_priorities_that_policies_see) {
  ServerGroup group = servers(1, 1);
  group.policy = "synergy";
  group.settings = {{"levels", "2"}};
  group.setup.classify = Classify::kFeedback;
  WorldSpec spec = world(group, open_clients("bulk:exp(1ms):1,urgent:exp(1ms):1", 900), 30);
  spec.clients[0].priorities = {{"bulk", 1}, {"urgent", 0}};
  const auto got = outcome_of(spec);
  EXPECT_LT(3 * got.clients[0].types[1].second.mean_ns(),
            got.clients[0].types[0].second.mean_ns());
}

TEST(World, what_does_not_fit_is_refused_in_one_line) {
  const WorldSpec good = world(servers(1), open_clients("all:1ms:1", 10), 1);
  const auto refused = [&good](auto&& change) {
    WorldSpec spec = good;
    change(spec);
    const auto outcome = run_world(spec);
    return !outcome.ok() && outcome.error().find('\n') == std::string::npos;
  };
  EXPECT_TRUE(run_world(good).ok());
  EXPECT_TRUE(refused([](WorldSpec& s) { s.servers.clear(); }));
  EXPECT_TRUE(refused([](WorldSpec& s) { s.servers[0].count = 1001; }));
  EXPECT_TRUE(refused([](WorldSpec& s) { s.servers[0].policy = "none"; }));
  EXPECT_TRUE(refused([](WorldSpec& s) { s.servers[0].settings = {{"frob", "1"}}; }));
  EXPECT_TRUE(refused([](WorldSpec& s) { s.servers[0].speed = 0; }));
  EXPECT_TRUE(refused([](WorldSpec& s) { s.servers[0].setup.workers = 0; }));
  EXPECT_TRUE(refused([](WorldSpec& s) { s.servers[0].setup.worker_speeds = {1, 1}; }));
  EXPECT_TRUE(refused([](WorldSpec& s) { s.servers[0].setup.worker_speeds = {0.01}; }));
  EXPECT_TRUE(refused([](WorldSpec& s) {
    s.servers[0].setup.worker_speeds = {1};
    s.servers[0].setup.costs.stalls = {.every = Nanos::millis(1), .length = Nanos(1)};
  }));
  EXPECT_TRUE(refused([](WorldSpec& s) { s.clients.clear(); }));
  EXPECT_TRUE(refused([](WorldSpec& s) { s.clients[0].workload.rate = 0; }));
  EXPECT_TRUE(refused([](WorldSpec& s) { s.clients[0].attempts = 0; }));
  EXPECT_TRUE(refused([](WorldSpec& s) { s.clients[0].fan_out = 0; }));
  EXPECT_TRUE(refused([](WorldSpec& s) { s.clients[0].deadlines = true; }));
  EXPECT_TRUE(refused([](WorldSpec& s) { s.clients[0].heeds_levels = true; }));
  EXPECT_TRUE(refused([](WorldSpec& s) { s.clients[0].priorities = {{"none", 1}}; }));
  EXPECT_TRUE(refused([](WorldSpec& s) { s.clients[0].surges = {{Nanos(2), Nanos(1), 2}}; }));
  EXPECT_TRUE(refused([](WorldSpec& s) { s.warmup = 1; }));
}

// Three times what two servers can do. Refusals go over the network; what is withheld does not.
TEST(World, clients_that_heed_the_levels_send_little_that_is_refused) {
  const auto run = [](bool heeds) {
    ServerGroup group = servers(2, 4);
    overload::DagorSettings settings;
    settings.target_delay = Nanos::millis(5);
    settings.window = Nanos::millis(100);
    group.setup.limiter = settings;
    ClientGroup client = open_clients("urgent:exp(4ms):1,patient:exp(4ms):1", 6000);
    client.workload.flows.count = 1000;
    client.machines = 4;
    client.rtt = Nanos::millis(1);
    client.priorities = {{"patient", 3}};
    client.heeds_levels = heeds;
    return outcome_of(world(group, client, 20));
  };
  const WorldOutcome blind = run(false), heeds = run(true);
  EXPECT_EQ(blind.clients[0].withheld, 0u);
  EXPECT_GT(heeds.clients[0].withheld, blind.clients[0].refusals / 2);
  EXPECT_LT(heeds.clients[0].refusals, blind.clients[0].refusals / 3);
  const auto served = [](const WorldOutcome& of) {
    return static_cast<double>(of.clients[0].served);
  };
  EXPECT_GT(served(heeds), 0.9 * served(blind));
  EXPECT_EQ(heeds.clients[0].attempts + heeds.clients[0].withheld, heeds.clients[0].requests);
}

}  // namespace
}  // namespace rubato::fleet
