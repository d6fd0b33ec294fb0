// SPDX-License-Identifier: Apache-2.0
#include "fleet/world_file.h"

#include <gtest/gtest.h>

#include <variant>

namespace rubato::fleet {
namespace {

constexpr const char* kWhole = R"toml(
length = "20s"
warmup = 0.2
slice = "500ms"
seed = 7

[[servers]]
name = "new"
count = 3
workers = 4
policy = "synergy"
set = {levels = "2", quantum = "7us"}
costs = "ideal"
classify = "feedback"
overload = "aqm"
target_delay = "40ms"
slow = [{from = 5, until = "6s", factor = 0.1}]

[[servers]]
name = "old"
speed = 0.5
workers = 2
worker_speeds = [1, 0.5]

[[clients]]
machines = 8
workload = "get:1ms:99,scan:exp(20ms):1"
arrivals = "onoff"
load = 0.5
rtt = "200us"
jitter = "exp(50us)"
timeout = "50ms"
attempts = 3
backoff = "5ms"
retry_budget = 0.1
hedge = "p95"
balancer = "two-choices"
shared = true
deadlines = true
cancels = true
priorities = {scan = 1}
surge = [{from = "10s", until = "12s", factor = 3}]

[[clients]]
name = "people"
workload = "get:1ms:1"
users = 10
think = "exp(1s)"
fan_out = 3
hedge = "5ms"
)toml";

Result<WorldSpec> parsed(const std::string& text) {
  return parse_world(text, "w.toml", parts_without_files());
}

TEST(WorldFile, every_key_is_read) {
  auto world = parsed(kWhole);
  ASSERT_TRUE(world.ok()) << world.error();
  EXPECT_EQ(world->length, Nanos::seconds(20));
  EXPECT_EQ(world->slice, Nanos::millis(500));
  EXPECT_EQ(world->seed, 7u);
  const ServerGroup& fresh = world->servers[0];
  EXPECT_EQ(fresh.count * fresh.setup.workers, 12u);
  EXPECT_EQ(fresh.settings, (sim::Settings{{"levels", "2"}, {"quantum", "7us"}}));
  EXPECT_EQ(fresh.setup.classify, Classify::kFeedback);
  EXPECT_EQ(fresh.setup.refusal_rule->target_delay, Nanos::millis(40));
  EXPECT_EQ(fresh.slow[0].from, Nanos::seconds(5));
  EXPECT_EQ(world->servers[1].speed, 0.5);
  const ClientGroup& web = world->clients[0];
  EXPECT_EQ(web.workload.arrivals.shape, ArrivalShape::kOnOff);
  EXPECT_EQ(world->servers[1].setup.worker_speeds, (std::vector<double>{1, 0.5}));
  EXPECT_NEAR(web.workload.rate, 0.5 * (12 + 1.5 * 0.5) / 0.00119, 1);
  EXPECT_EQ(web.timeout, Nanos::millis(50));
  EXPECT_EQ(web.attempts, 3u);
  EXPECT_EQ(*web.retry_budget, 0.1);
  EXPECT_EQ(web.hedge_percentile, 95);
  EXPECT_EQ(web.balancing, Balancing::kTwoChoices);
  EXPECT_TRUE(web.shared && web.deadlines && web.cancels && web.jitter);
  EXPECT_EQ(web.priorities[0].second, 1);
  EXPECT_EQ(web.surges[0].factor, 3);
  const ClientGroup& people = world->clients[1];
  EXPECT_EQ(people.users, 10u);
  EXPECT_EQ(people.think->mean, Nanos::seconds(1));
  EXPECT_EQ(people.hedge_after, Nanos::millis(5));
}

TEST(WorldFile, servers_may_have_a_limiter_with_settings_of_its_own) {
  auto world = parsed("[[servers]]\nworkers = 3\noverload = \"cinnamon\"\n"
                      "target_delay = \"5ms\"\noverload_set = {ki = \"0.5\"}\n"
                      "[[clients]]\nworkload = \"fixed-1\"\nrate = 5\n");
  ASSERT_TRUE(world.ok()) << world.error();
  const auto limits = std::get<overload::CinnamonSettings>(*world->servers[0].setup.limiter);
  EXPECT_EQ(limits.workers, 3u);
  EXPECT_EQ(limits.longest_wait, Nanos::millis(10));
  EXPECT_EQ(limits.ki, 0.5);
}

// Of a file whose fifth line is a key of clients with a workload.
std::string error_of_clients(const std::string& keys) {
  auto world = parsed("[[servers]]\npolicy = \"cfcfs\"\n[[clients]]\nworkload = \"fixed-1\"\n" +
                      keys + "\n");
  return world.ok() ? std::string() : world.error();
}

TEST(WorldFile, keys_of_clients_that_nothing_would_read_are_refused) {
  EXPECT_EQ(error_of_clients("load = 0.5\nusers = 3"), "w.toml:5: load does not go with users");
  EXPECT_EQ(error_of_clients("rate = 5\nusers = 3"), "w.toml:5: rate does not go with users");
  EXPECT_EQ(error_of_clients("flows = 5\nusers = 3"), "w.toml:5: flows does not go with users");
  EXPECT_EQ(error_of_clients("arrivals = \"onoff\"\nusers = 3"),
            "w.toml:5: arrivals does not go with users");
  EXPECT_EQ(error_of_clients("rate = 5\nload = 0.5"), "w.toml:5: rate does not go with load");
  EXPECT_EQ(error_of_clients("think = \"1s\"\nload = 0.5"), "w.toml:5: think needs users");
  for (const char* key : {"backoff = \"1ms\"", "longest_backoff = \"2s\"", "retry_budget = 0.1",
                          "retries_refused = false"}) {
    EXPECT_NE(error_of_clients(std::string(key) + "\nload = 0.5").find("needs attempts above 1"),
              std::string::npos)
        << key;
  }
  EXPECT_EQ(error_of_clients("longest_backoff = \"2s\"\nattempts = 2\nload = 0.5"),
            "w.toml:5: longest_backoff needs backoff");
  EXPECT_EQ(error_of_clients("attempts = 2\nretries_refused = false\nload = 0.5"),
            "w.toml:5: attempts needs timeout or retries_refused");
  EXPECT_EQ(error_of_clients("hedge_budget = 0.1\nload = 0.5"),
            "w.toml:5: hedge_budget needs hedge");
  EXPECT_EQ(error_of_clients("cancels = true\nload = 0.5"),
            "w.toml:5: cancels needs timeout, hedge or fan_out");
  EXPECT_EQ(error_of_clients("load = 0.5"), "");
  EXPECT_EQ(error_of_clients("users = 3"), "");
  EXPECT_EQ(error_of_clients("cancels = true\nfan_out = 2\nload = 0.5"), "");
}

TEST(WorldFile, arrivals_and_flows_of_a_trace_are_its_own) {
  WorldParts parts = parts_without_files();
  parts.workload = [](const std::string&, WorkloadSpec& workload) -> Status {
    workload.mixes = {parse_mix("fixed-1").value()};
    workload.trace = parse_recording("1,1,all,0\n2,1,all,0\n", workload.mixes[0]).value();
    return Done{};
  };
  for (const std::string key : {"arrivals = \"onoff\"", "flows = 5"}) {
    auto world = parse_world("[[servers]]\n[[clients]]\nworkload = \"t\"\nload = 0.5\n" + key,
                             "w.toml", parts);
    ASSERT_FALSE(world.ok());
    EXPECT_NE(world.error().find("needs a workload that is no trace"), std::string::npos);
  }
}

TEST(WorldFile, keys_of_servers_that_nothing_would_read_are_refused) {
  const auto error_of = [](const std::string& keys) {
    auto world = parsed("[[clients]]\nworkload = \"fixed-1\"\nrate = 5\n[[servers]]\n" + keys);
    return world.ok() ? std::string() : world.error();
  };
  EXPECT_EQ(error_of("target_delay = \"5ms\"\n"),
            "w.toml:5: target_delay needs overload = \"aqm\", \"cinnamon\" or \"dagor\"");
  EXPECT_EQ(error_of("overload_calm = \"5ms\"\noverload = \"dagor\"\n"),
            "w.toml:5: overload_calm needs overload = \"aqm\"");
  EXPECT_EQ(error_of("long_over = \"5ms\"\n"),
            "w.toml:5: long_over needs classify = \"feedback\" or \"declared\"");
  EXPECT_EQ(error_of("overload = \"credits\"\n").find("w.toml:5: overload needs clients"), 0u);
  EXPECT_EQ(error_of("overload_calm = \"5ms\"\noverload = \"aqm\"\n"), "");
  EXPECT_EQ(error_of("long_over = \"5ms\"\nclassify = \"feedback\"\n"), "");
}

TEST(WorldFile, the_target_delay_of_weights_needs_a_balancer_that_has_them) {
  const std::string rest = "[[servers]]\n[[clients]]\nworkload = \"fixed-1\"\nrate = 5\n";
  auto world = parsed("target_delay = \"5ms\"\n" + rest);
  ASSERT_FALSE(world.ok());
  EXPECT_EQ(world.error(), "w.toml:1: target_delay needs clients with balancer = \"weights\"");
  EXPECT_TRUE(parsed("target_delay = \"5ms\"\n" + rest + "balancer = \"weights\"\n").ok());
}

TEST(WorldFile, priorities_need_a_server_that_looks_at_them) {
  const auto error_of = [](const std::string& server) {
    auto world = parsed("[[servers]]\n" + server + "[[clients]]\nworkload = \"a:1ms:1,b:1ms:1\"\n"
                        "rate = 5\npriorities = {a = 0, b = 1}\n");
    return world.ok() ? std::string() : world.error();
  };
  for (const char* policy : {"policy = \"cfcfs\"\n", "policy = \"srpt\"\n", "overload = \"aqm\"\n",
                             "set = {levels = \"1\"}\n", "overload = \"gradient\"\n"}) {
    EXPECT_NE(error_of(policy).find("priorities: no server looks at them"), std::string::npos)
        << policy;
  }
  for (const char* policy : {"set = {levels = \"2\"}\n", "overload = \"dagor\"\n",
                             "policy = \"cfcfs\"\noverload = \"cinnamon\"\n"}) {
    EXPECT_EQ(error_of(policy), "") << policy;
  }
}

TEST(WorldFile, what_is_wrong_is_named_with_its_line) {
  const std::string least = "[[servers]]\n[[clients]]\nworkload = \"fixed-1\"\nrate = 5\n";
  EXPECT_TRUE(parsed(least).ok());
  const auto error_of = [&least](const std::string& more) {
    auto world = parsed(least + more);
    return world.ok() ? std::string() : world.error();
  };
  EXPECT_EQ(error_of("frob = 1\n"), "w.toml:5: there is no key 'frob' here");
  EXPECT_EQ(error_of("timeout = \"soon\"\n"),
            "w.toml:5: timeout takes a time such as \"20ms\"; a bare number is seconds");
  EXPECT_EQ(error_of("attempts = 0\n"), "w.toml:5: attempts takes a whole number from 1 to 100");
  EXPECT_EQ(error_of("machines = 1.5\n").find("w.toml:5: machines takes a whole number"), 0u);
  EXPECT_NE(error_of("balancer = \"best\"\n").find("w.toml:5: balancer"), std::string::npos);
  EXPECT_NE(error_of("hedge = \"p100\"\n").find("w.toml:5: hedge"), std::string::npos);
  EXPECT_NE(error_of("surge = 3\n").find("w.toml:5: surge is a list"), std::string::npos);
  EXPECT_NE(error_of("deadlines = true\n").find("deadlines: needs a timeout"), std::string::npos);
  EXPECT_NE(error_of("deadlines = \n").find("w.toml:5: "), std::string::npos);
  EXPECT_EQ(error_of("[[servers]]\nworker_speeds = [1, \"x\"]\n"),
            "w.toml:6: worker_speeds takes numbers: [1, 1, 0.5]");
  EXPECT_NE(error_of("[[servers]]\noverload = \"aqm\"\noverload_set = {window = \"1s\"}\n")
                .find("overload_set: needs --overload gradient"),
            std::string::npos);
  EXPECT_NE(parsed("").error().find("needs one group"), std::string::npos);
  EXPECT_NE(parsed("servers = 3").error().find("w.toml:1: servers is a list"), std::string::npos);
}

}  // namespace
}  // namespace rubato::fleet
