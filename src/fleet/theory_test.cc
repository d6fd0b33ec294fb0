// SPDX-License-Identifier: Apache-2.0
//
// Fleets against queueing theory, in simulated time.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "fleet/testing/worlds.h"

namespace rubato::fleet {
namespace {

struct Closed {
  double throughput, response_ms;
};

// M/M/c//N, the machine repair model: birth and death of the number at the server.
Closed repair_model(int users, int workers, double think_ms, double service_ms) {
  double weight = 1, sum = 1, served = 0;
  for (int n = 1; n <= users; ++n) {
    const double rate = std::min(n, workers) / service_ms;
    weight *= (users - n + 1) / think_ms / rate;
    sum += weight;
    served += weight * rate;
  }
  const double per_ms = served / sum;
  return {1000 * per_ms, users / per_ms - think_ms};
}

// Mean-value analysis (Reiser and Lavenberg, JACM 1980) of single servers that are visited with the
// same probability, and a delay.
Closed mean_values(int users, double delay_ms, const std::vector<double>& service_ms) {
  std::vector<double> held(service_ms.size());
  double response = 0;
  for (int n = 1; n <= users; ++n) {
    std::vector<double> at(service_ms.size());
    response = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      at[i] = service_ms[i] * (1 + held[i]) / static_cast<double>(at.size());
      response += at[i];
    }
    for (size_t i = 0; i < at.size(); ++i) held[i] = n / (delay_ms + response) * at[i];
  }
  return {1000 * users / (delay_ms + response), response};
}

void expect_within(double simulated, double exact, double share, const char* what) {
  std::printf("%-40s theory %9.5g  simulated %9.5g  off by %+5.2f %%\n", what, exact, simulated,
              100 * (simulated / exact - 1));
  EXPECT_NEAR(simulated, exact, share * exact) << what;
}

TEST(FleetTheory, a_closed_loop_at_one_server_is_the_machine_repair_model) {
  for (const int users : {2, 8, 20}) {
    const Closed exact = repair_model(users, 2, 10, 1.5);
    const auto got = outcome_of(world(servers(1, 2), closed_clients(
        "all:exp(1.5ms):1", static_cast<uint32_t>(users), Nanos::millis(10)), 80));
    expect_within(throughput(got), exact.throughput, 0.02, "throughput of M/M/2//N");
    expect_within(mean_ms(got), exact.response_ms, 0.03, "response of M/M/2//N");
  }
}

// N = X (R + Z) for whatever is in between: here preempted requests of two types, and a round trip.
TEST(FleetTheory, the_interactive_response_time_law_holds_for_any_policy) {
  ServerGroup group = servers(2, 2);
  group.policy = "synergy";
  ClientGroup users = closed_clients("get:20us:95,scan:exp(2ms):5", 30, Nanos::micros(500));
  users.rtt = Nanos::micros(100);
  const auto got = outcome_of(world(group, users, 5));
  expect_within(throughput(got) * (mean_ms(got) + 0.5) / 1000, 30, 0.01, "X (R + Z)");
}

TEST(FleetTheory, a_closed_network_of_unequal_servers_has_the_mean_values) {
  WorldSpec spec = world(servers(2), closed_clients("all:exp(2ms):1", 12, Nanos::millis(8)), 60);
  spec.servers.push_back(servers(1, 1, 2));
  spec.servers.push_back(servers(1, 1, 0.5));
  spec.clients[0].rtt = Nanos::millis(1);
  const Closed exact = mean_values(12, 9, {2, 2, 1, 4});
  const auto got = outcome_of(spec);
  expect_within(throughput(got), exact.throughput, 0.02, "throughput of four servers");
  expect_within(mean_ms(got) - 1, exact.response_ms, 0.03, "response of four servers");
}

// Fork and join of two exponential servers (Flatto and Hahn, SIAM J. Appl. Math. 1984): the mean
// response is (12 - rho) / 8 times that of M/M/1.
TEST(FleetTheory, a_call_to_two_servers_takes_as_long_as_fork_and_join) {
  ClientGroup group = open_clients("all:exp(1ms):1", 600);
  group.fan_out = 2;
  const auto got = outcome_of(world(servers(2), group, 300));
  expect_within(mean_ms(got), (12 - 0.6) / 8 / (1 - 0.6), 0.03, "two-way fork and join");
}

// With next to no load the slowest of n exponential times has the mean of the harmonic number.
TEST(FleetTheory, a_call_to_a_hundred_servers_takes_as_long_as_the_slowest) {
  ClientGroup group = open_clients("all:exp(1ms):1", 5);
  group.fan_out = 100;
  const auto got = outcome_of(world(servers(100), group, 400));
  double harmonic = 0;
  for (int i = 1; i <= 100; ++i) harmonic += 1.0 / i;
  expect_within(mean_ms(got), harmonic, 0.025, "slowest of 100");
}

// Mitzenmacher, IEEE TPDS 2001: as the number of servers grows the mean time of two choices comes
// to the sum of rho^(2^i - 2); with 100 it is about 1 % above.
TEST(FleetTheory, two_choices_come_near_their_fixed_point) {
  constexpr double kLoad = 0.9;
  double fixed_point = 0;
  for (int i = 1; i <= 8; ++i) fixed_point += std::pow(kLoad, std::pow(2, i) - 2);
  ClientGroup group = open_clients("all:exp(1ms):1", 100 * 1000 * kLoad);
  group.balancing = Balancing::kTwoChoices;
  group.shared = true;
  const auto got = outcome_of(world(servers(100), group, 4));
  expect_within(mean_ms(got), fixed_point, 0.03, "two choices of 100");
  EXPECT_GT(mean_ms(got), fixed_point);
}

TEST(FleetTheory, servers_chosen_at_random_are_queues_of_their_own) {
  const auto got = outcome_of(world(servers(100), open_clients("all:exp(1ms):1", 70'000), 3));
  expect_within(mean_ms(got), 1 / (1 - 0.7), 0.03, "M/M/1 of 100");
  expect_within(got.servers[7].busy_share, 0.7, 0.06, "a server's utilisation");
}

}  // namespace
}  // namespace rubato::fleet
