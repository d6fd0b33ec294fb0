// SPDX-License-Identifier: Apache-2.0
//
// Retry storms: a load that a fleet serves with ease, a surge of one second, and what is left of
// the service long after it (Bronson et al., "Metastable Failures in Distributed Systems", HotOS
// 2021). In simulated time.
#include <gtest/gtest.h>

#include "fleet/testing/worlds.h"

namespace rubato::fleet {
namespace {

// Ten servers of 400 requests per second each, at 70 % of that.
WorldSpec surge() {
  ClientGroup group = open_clients("all:exp(10ms):1", 2800);
  group.machines = 20;
  group.balancing = Balancing::kTwoChoices;
  group.rtt = Nanos::millis(1);
  group.timeout = Nanos::millis(200);
  group.attempts = 5;
  group.backoff = Nanos::millis(20);
  group.surges = {{Nanos::seconds(5), Nanos::seconds(6), 3}};
  WorldSpec spec = world(servers(10, 4), group, 20);
  spec.warmup = 0;
  return spec;
}

// Of the calls made between two seconds, the share that was served.
double goodput(const WorldOutcome& outcome, size_t from, size_t to) {
  uint64_t calls = 0, served = 0;
  for (size_t i = from; i < to; ++i) {
    calls += outcome.clients[0].slices[i].calls;
    served += outcome.clients[0].slices[i].served;
  }
  return static_cast<double>(served) / static_cast<double>(calls);
}

TEST(RetryStorm, outlives_its_cause_without_a_budget) {
  const auto got = outcome_of(surge());
  EXPECT_GT(goodput(got, 0, 5), 0.99);
  EXPECT_LT(goodput(got, 15, 20), 0.05);
  EXPECT_GT(got.servers[0].busy_share, 0.7);  // and yet they work
  EXPECT_GT(got.clients[0].wasted, got.clients[0].served);
}

TEST(RetryStorm, ends_with_its_cause_if_retries_have_a_budget) {
  WorldSpec spec = surge();
  spec.clients[0].retry_budget = 0.1;
  const auto got = outcome_of(spec);
  EXPECT_GT(goodput(got, 15, 20), 0.99);
  EXPECT_GT(got.clients[0].over_budget, 0u);
  const double retried = static_cast<double>(got.clients[0].retries);
  EXPECT_LE(retried, 0.1 * static_cast<double>(got.clients[0].requests) + 20 * 10);
}

// In order of arrival a server always begins what is about to expire, and ends it too late.
TEST(RetryStorm, outlives_its_cause_though_servers_know_the_deadlines) {
  WorldSpec spec = surge();
  spec.clients[0].deadlines = true;
  EXPECT_LT(goodput(outcome_of(spec), 15, 20), 0.3);
}

// For the same reason it does not end if clients take back what they gave up.
TEST(RetryStorm, outlives_its_cause_though_clients_cancel) {
  WorldSpec spec = surge();
  spec.clients[0].cancels = true;
  const auto got = outcome_of(spec);
  EXPECT_LT(goodput(got, 15, 20), 0.3);
  EXPECT_GT(got.clients[0].cancelled, got.clients[0].served);
}

// The servers' part: to refuse what has waited for too long.
TEST(RetryStorm, ends_with_its_cause_if_servers_refuse_late_requests) {
  WorldSpec spec = surge();
  spec.servers[0].setup.refusal_rule = overload::RefusalSettings{
      .target_delay = Nanos::millis(40), .patience = Nanos::millis(100)};
  EXPECT_GT(goodput(outcome_of(spec), 15, 20), 0.99);
}

}  // namespace
}  // namespace rubato::fleet
