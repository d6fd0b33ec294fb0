// SPDX-License-Identifier: Apache-2.0
#include "sim/clients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace rubato::sim {
namespace {

WorkloadSpec at_rate(double rps, uint32_t flows) {
  WorkloadSpec declaration;
  declaration.mixes.push_back(parse_mix("exp-1").value());
  declaration.rate = rps;
  declaration.flows.count = flows;
  return declaration;
}

Costs network(Nanos rtt, Nanos p99) {
  Costs costs;
  costs.network_rtt = rtt;
  costs.network_rtt_p99 = p99;
  return costs;
}

constexpr Nanos kRtt = Nanos::micros(10);

struct Server {
  Server(double rps, uint64_t requests, ClientSettings settings, int64_t credit,
         Nanos p99 = Nanos())
      : clients(at_rate(rps, settings.sessions), requests, 1, network(kRtt, p99), settings, credit,
                Instant()) {}

  // The next message that reaches it; kNothing = there will be none.
  Clients::Message receive() {
    while (clients.next() != Instant::never()) {
      now = clients.next();
      const Clients::Message message = clients.step();
      if (message.kind != Clients::Kind::kNothing) return message;
    }
    return {};
  }
  uint64_t unsent() const { return clients.unsent()[0]; }

  Clients clients;
  Instant now;
};

TEST(Clients, without_a_limit_every_request_is_sent_at_once) {
  Server server(1e6, 1000, {.sessions = 10}, Clients::kUnlimited);
  uint64_t received = 0;
  for (auto message = server.receive(); message.kind == Clients::Kind::kRequest;
       message = server.receive()) {
    EXPECT_EQ(server.now, message.offer.at + kRtt / 2);
    ++received;
  }
  EXPECT_EQ(received, 1000u);
  EXPECT_EQ(server.unsent(), 0u);
}

TEST(Clients, a_session_has_no_more_underway_than_its_credit) {
  Server server(1e7, 10'000, {.sessions = 3, .expiry = Nanos::max()}, 2);
  std::vector<int> underway(3);
  uint64_t received = 0;
  for (auto message = server.receive(); message.kind == Clients::Kind::kRequest;
       message = server.receive()) {
    ++received;
    ASSERT_LE(++underway[message.session], 2);
    if (underway[message.session] < 2) continue;
    underway[message.session] = 0;
    for (int answers = 0; answers < 2; ++answers) {
      server.clients.answer(message.session, 2, server.now);
    }
  }
  EXPECT_GT(received, 100u);
}

TEST(Clients, what_waits_for_a_credit_longer_than_the_expiry_is_shed) {
  Server server(1e4, 100, {.sessions = 1, .expiry = kRtt}, 0);
  const Clients::Message demand = server.receive();
  ASSERT_EQ(demand.kind, Clients::Kind::kDemand);
  EXPECT_EQ(demand.demand, 1);
  // Is there 11 us after the request.
  server.clients.advertise(0, 1, server.now + Nanos::micros(1));
  const Clients::Message sent = server.receive();
  EXPECT_NE(sent.offer.at, demand.offer.at);
  EXPECT_GE(server.unsent(), 1u);
}

TEST(Clients, a_session_asks_once_by_a_message_of_its_own) {
  Server server(1e6, 1000, {.sessions = 1, .expiry = Nanos::max()}, 0);
  EXPECT_EQ(server.receive().kind, Clients::Kind::kDemand);
  EXPECT_EQ(server.receive().kind, Clients::Kind::kNothing);  // none until it has sent some
  EXPECT_EQ(server.clients.demand_messages(), 1u);
}

TEST(Clients, of_more_than_a_queue_holds_the_oldest_are_shed) {
  Server server(1e6, 100, {.sessions = 1, .expiry = Nanos::max()}, 0);
  while (server.receive().kind != Clients::Kind::kNothing) {
  }
  EXPECT_EQ(server.unsent(), 100 - Clients::kQueue);
  server.clients.abort();
  EXPECT_EQ(server.unsent(), 100u);
}

TEST(Clients, every_request_tells_how_many_wait_behind_it) {
  Server server(1e7, 10, {.sessions = 1, .expiry = Nanos::max()}, 1);
  EXPECT_EQ(server.receive().demand, 0);
  while (server.clients.generated() < 10) server.clients.step();
  server.clients.answer(0, 1, server.now + kRtt);
  EXPECT_EQ(server.receive().demand, 8);
}

TEST(Clients, round_trips_have_the_mean_and_the_99th_percentile_of_the_machine) {
  Server server(1e3, 20'000, {.sessions = 10'000}, Clients::kUnlimited, Nanos::micros(20));
  std::vector<Nanos> round_trips;
  Nanos sum;
  for (auto message = server.receive(); message.kind == Clients::Kind::kRequest;
       message = server.receive()) {
    const Instant back = server.clients.answer(message.session, 1, server.now);
    round_trips.push_back(back - message.offer.at);
    sum += round_trips.back();
  }
  std::sort(round_trips.begin(), round_trips.end());
  EXPECT_NEAR((sum / 20'000).micros(), 10, 0.2);
  EXPECT_NEAR(round_trips[19'800].micros(), 20, 1);
}

}  // namespace
}  // namespace rubato::sim
