// SPDX-License-Identifier: Apache-2.0
#include "overload/balancer.h"

#include <gtest/gtest.h>

#include <vector>

namespace rubato::overload {
namespace {

constexpr Instant kNow{1'000'000'000};

std::vector<int> picks_of(Balancer& balancer, uint32_t servers, int requests) {
  std::vector<int> picks(servers);
  for (int i = 0; i < requests; ++i) {
    const uint32_t server = balancer.pick(kNow, Balancer::kNone);
    ++picks[server];
    balancer.ended(server);
  }
  return picks;
}

TEST(Balancer, every_way_to_choose_uses_all_servers_that_are_alike) {
  for (const Balancing how : {Balancing::kRandom, Balancing::kRoundRobin, Balancing::kTwoChoices,
                              Balancing::kLeastRequests, Balancing::kPrequal,
                              Balancing::kWeights}) {
    Balancer balancer(how, 4, 1);
    for (const int picks : picks_of(balancer, 4, 4000)) EXPECT_NEAR(picks, 1000, 150);
  }
}

TEST(Balancer, least_requests_and_two_choices_see_what_is_underway) {
  Balancer least(Balancing::kLeastRequests, 3, 1);
  std::vector<int> held(3);
  for (int i = 0; i < 30; ++i) ++held[least.pick(kNow, Balancer::kNone)];
  EXPECT_EQ(held, (std::vector<int>{10, 10, 10}));
  Balancer two(Balancing::kTwoChoices, 2, 1);
  for (int i = 0; i < 100; ++i) two.send(0);
  EXPECT_LT(picks_of(two, 2, 1000)[0], 300);  // both draws were that server
}

TEST(Balancer, a_server_to_avoid_is_avoided_if_there_is_another) {
  for (const Balancing how : {Balancing::kRandom, Balancing::kLeastRequests, Balancing::kWeights}) {
    Balancer balancer(how, 3, 1);
    if (how == Balancing::kWeights) balancer.learn_weights(std::vector<int>{100, 0, 0});
    for (int i = 0; i < 200; ++i) {
      const uint32_t server = balancer.pick(kNow, 0);
      EXPECT_NE(server, 0u);
      balancer.ended(server);
    }
  }
  Balancer alone(Balancing::kRandom, 1, 1);
  EXPECT_EQ(alone.pick(kNow, 0), 0u);
}

TEST(Balancer, weights_are_shares_and_none_is_none) {
  Balancer balancer(Balancing::kWeights, 3, 1);
  balancer.learn_weights(std::vector<int>{100, 50, 0});
  const auto picks = picks_of(balancer, 3, 3000);
  EXPECT_NEAR(picks[0], 2000, 150);
  EXPECT_EQ(picks[2], 0);
  balancer.learn_weights(std::vector<int>{0, 0, 0});
  EXPECT_GT(picks_of(balancer, 3, 300)[2], 50);
}

TEST(Balancer, prequal_takes_the_fastest_of_those_that_are_not_hot) {
  Balancer balancer(Balancing::kPrequal, 4, 1);
  balancer.learn({0, {2, Nanos::millis(9)}}, kNow);
  balancer.learn({1, {3, Nanos::millis(5)}}, kNow);
  balancer.learn({2, {50, Nanos::millis(1)}}, kNow);  // hot
  balancer.learn({3, {1, Nanos::millis(7)}}, kNow);
  EXPECT_EQ(balancer.pick(kNow, Balancer::kNone), 1u);
  EXPECT_EQ(balancer.pick(kNow, Balancer::kNone), 3u);  // an answer is used once
  // Answers of long ago say nothing.
  balancer.learn({0, {0, Nanos(1)}}, kNow);
  balancer.learn({1, {0, Nanos(1)}}, kNow);
  std::vector<int> picks(4);
  for (int i = 0; i < 400; ++i) {
    ++picks[balancer.pick(kNow + Nanos::seconds(2), Balancer::kNone)];
  }
  EXPECT_GT(picks[2], 50);
}

}  // namespace
}  // namespace rubato::overload
