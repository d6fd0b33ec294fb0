// SPDX-License-Identifier: Apache-2.0
#include "overload/cores/broker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace rubato::overload {
namespace {

constexpr Nanos kGrace = Nanos::millis(5);
constexpr Nanos kPatience = Nanos::seconds(1);
constexpr Nanos kLong = Nanos::millis(1);  // a wait that calls for a core

// Servers that obey as rubato's do: a core that is idle parks, a busy one when told to.
class CoreBrokerTest : public ::testing::Test {
 protected:
  void make(uint32_t cpus) {
    std::vector<uint32_t> all(cpus);
    std::iota(all.begin(), all.end(), 0u);
    broker = std::make_unique<CoreBroker>(all, kGrace, kPatience);
  }

  Result<CoreBroker::Server> join(CoreClaim claim, const char* rule = "caladan") {
    auto made = CoreRule::make(rule, {}, claim.limit);
    return broker->join(std::move(*made), claim, at);
  }

  // The server's workers have `cores` cores, and a request has waited for `delay`.
  void say(CoreBroker::Server server, uint32_t cores, Nanos delay = {}) {
    CoreReport report{broker->order(server).number, cores, {}};
    report.signals.max_delay = delay;
    report.signals.busy = delay > Nanos() ? 1 : 0;
    broker->report(server, report, at);
    check();
  }
  // As before, with all the cores that it may have.
  void want(CoreBroker::Server server) { say(server, broker->order(server).cores, kLong); }

  size_t held(CoreBroker::Server server) { return broker->order(server).cpus.size(); }
  void pass(Nanos time) {
    at = at + time;
    broker->pass(at);
    check();
  }

  // Each CPU has one place.
  void check() {
    std::multiset<uint32_t> places(broker->free().begin(), broker->free().end());
    for (const CoreBroker::View& one : broker->view()) {
      places.insert(one.order.cpus.begin(), one.order.cpus.end());
      EXPECT_LE(one.order.cpus.size(), one.claim.limit);
      EXPECT_LE(one.order.cores, one.order.cpus.size());
    }
    EXPECT_TRUE(std::equal(places.begin(), places.end(), broker->cpus().begin(),
                           broker->cpus().end()));
  }

  std::unique_ptr<CoreBroker> broker;
  Instant at = Instant() + Nanos::seconds(1);
};

TEST_F(CoreBrokerTest, a_server_starts_with_its_guaranteed_cores_and_grows_one_by_one) {
  make(16);
  const auto server = join({2, 8}).value();
  EXPECT_EQ(held(server), 2u);
  for (uint32_t cores = 3; cores <= 8; ++cores) {
    want(server);
    EXPECT_EQ(held(server), cores);
  }
  want(server);
  EXPECT_EQ(held(server), 8u);
  say(server, 3);
  EXPECT_EQ(held(server), 3u);
  say(server, 0);
  EXPECT_EQ(held(server), 2u);
}

TEST_F(CoreBrokerTest, guaranteed_cores_are_promised_once) {
  make(4);
  EXPECT_TRUE(join({3, 4}).ok());
  const auto refused = join({2, 4});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error(), "2 guaranteed cores do not fit: 1 of 4 are not promised to others");
  EXPECT_EQ(broker->counts().refused, 1u);
  EXPECT_TRUE(join({1, 4}).ok());
}

TEST_F(CoreBrokerTest, what_a_server_lacks_is_asked_back_from_the_one_with_most_beyond_its_own) {
  make(16);
  const auto big = join({1, 16}).value();
  while (held(big) < 14) want(big);
  const auto small = join({1, 16}).value();
  want(small);
  EXPECT_EQ(held(small), 2u);
  const auto late = join({3, 3}).value();  // nothing is free
  EXPECT_EQ(held(late), 0u);
  EXPECT_EQ(broker->order(big).cores, 11u);
  EXPECT_EQ(held(big), 14u);  // until it has parked them
  EXPECT_EQ(broker->order(small).cores, 2u);
  say(big, 11, kLong);
  EXPECT_EQ(held(big), 11u);
  EXPECT_EQ(held(late), 3u);
  EXPECT_EQ(broker->counts().moves, 3u);
}

TEST_F(CoreBrokerTest, a_busy_core_is_taken_when_the_grace_is_over) {
  make(4);
  const auto first = join({1, 4}).value();
  while (held(first) < 4) want(first);
  const auto second = join({1, 4}).value();
  say(first, 4, kLong);
  pass(kGrace - Nanos(1));
  EXPECT_EQ(held(second), 0u);
  EXPECT_EQ(broker->due(), at + Nanos(1));
  pass(Nanos(1));
  EXPECT_EQ(held(second), 1u);
  EXPECT_EQ(held(first), 3u);
  EXPECT_EQ(broker->view()[0].taken, 1u);
  EXPECT_EQ(broker->view()[0].given_back, 0u);
}

TEST_F(CoreBrokerTest, each_core_that_is_asked_back_has_a_grace_of_its_own) {
  make(4);
  const auto server = join({1, 4}, "util-range").value();
  while (held(server) < 4) want(server);
  say(server, 4);
  EXPECT_EQ(broker->order(server).cores, 3u);
  pass(kGrace - Nanos(1));
  say(server, 4);
  EXPECT_EQ(broker->order(server).cores, 2u);
  EXPECT_EQ(broker->due(), at + Nanos(1));
  pass(Nanos(1));
  EXPECT_EQ(held(server), 3u);
  EXPECT_EQ(broker->view()[0].taken, 1u);
  pass(kGrace - Nanos(1));
  EXPECT_EQ(held(server), 2u);
}

TEST_F(CoreBrokerTest, a_server_that_wants_a_core_keeps_the_one_that_it_has_released) {
  make(4);
  const auto server = join({1, 4}, "util-range").value();
  while (held(server) < 3) want(server);
  say(server, 3);
  EXPECT_EQ(broker->order(server).cores, 2u);
  say(server, 3, kLong);
  EXPECT_EQ(broker->order(server).cores, 3u);
  EXPECT_EQ(held(server), 3u);
  pass(kGrace);
  EXPECT_EQ(held(server), 3u);
  EXPECT_EQ(broker->view()[0].taken, 0u);
}

TEST_F(CoreBrokerTest, a_server_does_not_keep_what_another_one_waits_for) {
  make(4);
  const auto first = join({1, 4}).value();
  while (held(first) < 4) want(first);
  const auto second = join({1, 4}).value();
  say(first, 4, kLong);
  EXPECT_EQ(broker->order(first).cores, 3u);
  pass(kGrace);
  EXPECT_EQ(held(second), 1u);
}

TEST_F(CoreBrokerTest, servers_that_all_want_more_end_with_equal_shares_and_rest_there) {
  make(64);
  std::vector<CoreBroker::Server> servers;
  for (int i = 0; i < 5; ++i) servers.push_back(join({1, 64}).value());
  while (held(servers[0]) < 60) want(servers[0]);
  const auto round = [&] {
    for (const auto server : servers) want(server);
  };
  for (int i = 0; i < 200; ++i) round();
  for (const auto server : servers) EXPECT_NEAR(static_cast<double>(held(server)), 12.8, 1);
  const uint64_t moves = broker->counts().moves;
  for (int i = 0; i < 100; ++i) round();
  EXPECT_EQ(broker->counts().moves, moves);
  EXPECT_TRUE(broker->free().empty());
}

TEST_F(CoreBrokerTest, a_hung_server_has_no_core_until_it_speaks_again) {
  make(4);
  const auto hung = join({2, 4}).value();
  const auto other = join({1, 4}).value();
  EXPECT_EQ(broker->due(), at + kPatience);
  pass(kPatience - Nanos(1));
  want(other);
  pass(Nanos(1));
  EXPECT_EQ(held(hung), 0u);
  EXPECT_EQ(broker->counts().hung, 1u);
  while (held(other) < 4) want(other);
  say(hung, 2);
  EXPECT_EQ(broker->order(other).cores, 2u);
  say(other, 2);
  EXPECT_EQ(held(hung), 2u);
}

TEST_F(CoreBrokerTest, a_server_that_leaves_is_succeeded_at_once) {
  make(2);
  const auto first = join({1, 2}).value();
  want(first);
  const auto second = join({1, 2}).value();
  EXPECT_EQ(held(second), 0u);
  broker->leave(first, at);
  EXPECT_EQ(held(second), 1u);
  EXPECT_EQ(broker->free().size(), 1u);
}

TEST_F(CoreBrokerTest, a_report_from_before_the_last_order_gives_nothing_back) {
  make(4);
  const auto server = join({1, 4}).value();
  const CoreReport early{broker->order(server).number, 1, {}};
  want(server);
  broker->report(server, early, at);
  EXPECT_EQ(held(server), 2u);
  EXPECT_EQ(broker->counts().late, 1u);
}

TEST_F(CoreBrokerTest, each_server_is_judged_by_its_own_rule) {
  make(8);
  const auto range = join({1, 4}, "util-range").value();
  const auto fixed = join({1, 3}, "static").value();
  for (int i = 0; i < 4; ++i) say(fixed, broker->order(fixed).cores);
  EXPECT_EQ(held(fixed), 3u);  // it wants all of them, busy or not
  want(range);
  want(range);
  EXPECT_EQ(held(range), 3u);
  say(range, 3);  // nothing is busy: one is asked back, and kept until it is parked
  EXPECT_EQ(broker->order(range).cores, 2u);
  EXPECT_EQ(held(range), 3u);
  say(range, 2);
  EXPECT_EQ(held(range), 2u);
}

TEST_F(CoreBrokerTest, a_cpu_goes_back_to_the_server_that_had_it) {
  make(4);
  const auto first = join({1, 2}).value();
  const auto second = join({1, 2}).value();
  want(first);
  const uint32_t cpu = broker->order(first).cpus.back();
  want(second);
  say(second, 1);
  say(first, 1);
  want(first);
  EXPECT_EQ(broker->order(first).cpus.back(), cpu);
  EXPECT_EQ(broker->counts().moves, 0u);
}

}  // namespace
}  // namespace rubato::overload
