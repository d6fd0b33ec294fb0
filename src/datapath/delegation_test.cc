// SPDX-License-Identifier: Apache-2.0
//
// A queue whose owner is away and that another polls, on each datapath. On TCP a wait that does not
// end as it should takes a hundred seconds; loopback looks up once a second by itself.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <thread>

#include "datapath/testing/datapath_fixture.h"

namespace rubato::testing {
namespace {

constexpr Nanos kLong = Nanos::seconds(100);

class Minding : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    FixtureOptions options;
    options.queues = 2;
    fixture_ = make_fixture(GetParam(), options);
    ASSERT_TRUE(migrated().delegate_to(&proxy()));
    delegated_ = {&migrated()};
  }

  DatapathQueue& proxy() { return fixture_->datapath().queue(WorkerId{0}); }
  DatapathQueue& migrated() { return fixture_->datapath().queue(WorkerId{1}); }
  void wait() { proxy().wait(kLong, delegated_); }

  std::unique_ptr<DatapathFixture> fixture_;
  std::array<DatapathQueue*, 1> delegated_{};
};

INSTANTIATE_TEST_SUITE_P(Kinds, Minding, ::testing::Values("tcp", "loopback"),
                         [](const auto& kind) { return kind.param; });

TEST_P(Minding, waking_a_delegated_queue_wakes_the_proxy) {
  migrated().wake();
  wait();
  std::thread sleeper([&] { wait(); });
  migrated().wake();  // though no thread has noticed the last one there
  sleeper.join();
}

TEST_P(Minding, the_proxy_can_still_be_woken_itself) {
  std::thread sleeper([&] { wait(); });
  proxy().wake();
  sleeper.join();
}

// A connection comes to either queue; over the rounds to both.
TEST_P(Minding, what_comes_from_outside_ends_the_wait) {
  for (int round = 0; round < 8; ++round) {
    SetUp();
    std::thread sleeper([&] { wait(); });
    auto client = fixture_->connect();
    ASSERT_TRUE(client->send("a\n"));
    sleeper.join();
    EXPECT_TRUE(fixture_->echo(1));
  }
}

TEST_P(Minding, who_is_back_waits_for_itself) {
  ASSERT_TRUE(migrated().delegate_to(nullptr));
  std::thread sleeper([&] { migrated().wait(kLong); });
  migrated().wake();
  sleeper.join();
  migrated().wake();
  std::thread([&] { migrated().wait(kLong); }).join();  // remembered, and by this queue alone
}

}  // namespace
}  // namespace rubato::testing
