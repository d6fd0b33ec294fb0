// SPDX-License-Identifier: Apache-2.0
#include "overload/cores/coresync.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/prng.h"
#include "overload/credit_pool.h"

namespace rubato::overload {
namespace {

constexpr Nanos kPolled = Nanos::micros(2);  // POLL_PERIOD

// What the cores of one server share.
struct Server {
  int64_t drained() const { return drained_sessions; }
  int64_t sessions() const { return open_sessions; }
  int64_t outstanding() const { return credits_out; }
  int64_t cores() const { return granted; }
  bool claim_parking() {
    if (somebody_parks) return false;
    somebody_parks = true;
    return true;
  }
  void release_parking() { somebody_parks = false; }
  void withhold(int64_t n) { pool.withhold(n); }
  void give_back(int64_t n) { pool.give_back(n); }

  int64_t drained_sessions = 0;
  int64_t open_sessions = 100;
  int64_t credits_out = 100;
  int64_t granted = 4;
  bool somebody_parks = false;
  CreditPool<PlainCell> pool{CreditSettings{}, 4};
};

class CoresyncTest : public ::testing::Test {
 protected:
  IdleAction asks(CoresyncCores::Idle& core, Nanos polled = kPolled) {
    return cores_.idle(core, polled, server_);
  }

  CoresyncCores cores_{CoresyncCores::Config{}};  // r = 50
  Server server_;
  CoresyncCores::Idle core_;
};

TEST_F(CoresyncTest, a_core_polls_for_the_poll_period_first) {  // lines 13-15
  EXPECT_EQ(asks(core_, kPolled - Nanos(1)), IdleAction::kPoll);
  EXPECT_FALSE(server_.somebody_parks);
  EXPECT_EQ(asks(core_, kPolled), IdleAction::kPark);
}

TEST_F(CoresyncTest, nobody_parks_while_a_session_is_drained) {  // lines 16-18
  server_.drained_sessions = 1;
  EXPECT_EQ(asks(core_), IdleAction::kPoll);
  EXPECT_FALSE(server_.somebody_parks);
  server_.drained_sessions = 0;
  EXPECT_EQ(asks(core_), IdleAction::kPark);
}

TEST_F(CoresyncTest, one_core_parks_at_a_time) {  // lines 19-21
  server_.credits_out = 100 + 50 * 4 + 1;
  CoresyncCores::Idle other;
  EXPECT_EQ(asks(core_), IdleAction::kPoll);  // waits for credits
  server_.credits_out = 100;
  EXPECT_EQ(asks(other), IdleAction::kPoll);  // waits for the first
  EXPECT_EQ(asks(core_), IdleAction::kPark);
  --server_.granted;
  EXPECT_EQ(asks(other), IdleAction::kPark);
}

TEST_F(CoresyncTest, it_parks_at_once_if_clients_hold_r_per_core_and_one_each) {  // line 23
  server_.credits_out = 100 + 50 * 4;
  EXPECT_EQ(asks(core_), IdleAction::kPark);
  EXPECT_EQ(server_.pool.withheld(), 0);
  EXPECT_FALSE(server_.somebody_parks);
}

TEST_F(CoresyncTest, else_it_withholds_its_share_once_and_polls_until_they_are_back) {  // 24-30
  server_.credits_out = 100 + 50 * 4 + 4;
  EXPECT_EQ(asks(core_), IdleAction::kPoll);
  EXPECT_EQ(server_.pool.withheld(), 51);  // (304 - 100) / 4
  EXPECT_EQ(asks(core_), IdleAction::kPoll);
  EXPECT_EQ(server_.pool.withheld(), 51);
  server_.credits_out = 100 + 50 * 4;
  EXPECT_EQ(asks(core_), IdleAction::kPark);
  EXPECT_EQ(server_.pool.withheld(), 51);
}

TEST_F(CoresyncTest, a_core_that_is_woken_gives_back_what_it_withheld) {  // lines 33-36
  server_.credits_out = 1000;
  asks(core_);
  server_.credits_out = 100;
  EXPECT_EQ(asks(core_), IdleAction::kPark);
  EXPECT_GT(server_.pool.withheld(), 0);
  cores_.resumed(core_, server_);
  EXPECT_EQ(server_.pool.withheld(), 0);
  cores_.resumed(core_, server_);  // and only once
  EXPECT_EQ(server_.pool.withheld(), 0);
}

TEST_F(CoresyncTest, a_core_that_finds_work_gives_back_and_lets_another_park) {
  server_.credits_out = 1000;
  asks(core_);
  cores_.resumed(core_, server_);
  EXPECT_EQ(server_.pool.withheld(), 0);
  EXPECT_FALSE(server_.somebody_parks);
}

// Where the published code forgets the amount and keeps the flag.
TEST_F(CoresyncTest, a_session_that_is_drained_meanwhile_ends_the_parking_without_a_leak) {
  server_.credits_out = 1000;
  asks(core_);
  EXPECT_GT(server_.pool.withheld(), 0);
  server_.drained_sessions = 1;
  EXPECT_EQ(asks(core_), IdleAction::kPoll);
  EXPECT_EQ(server_.pool.withheld(), 0);
  EXPECT_FALSE(server_.somebody_parks);
  server_.drained_sessions = 0;
  EXPECT_EQ(asks(core_), IdleAction::kPoll);  // starts anew
  EXPECT_EQ(server_.pool.withheld(), (1000 - 100) / 4);
}

TEST_F(CoresyncTest, r_may_follow_the_number_of_sessions) {
  CoresyncCores::Config config;
  config.scale_r = true;
  const CoresyncCores scaled(config);
  server_.open_sessions = 10'000;
  server_.credits_out = 10'000 + 5000 * 4;  // IV-D: R = 5000 for 10 000 sessions
  EXPECT_EQ(scaled.idle(core_, kPolled, server_), IdleAction::kPark);
  server_.credits_out += 4;
  EXPECT_EQ(scaled.idle(core_, kPolled, server_), IdleAction::kPoll);
}

TEST_F(CoresyncTest, cores_come_as_shenango_grants_them_or_as_caladan_does) {
  CoreSignals signals;
  signals.cores = 4;
  signals.limit = 16;
  signals.max_delay = Nanos::micros(9);
  const auto grants_twice = [&signals](bool pause) {
    CoresyncCores::Config config;
    config.pause = pause;
    const CoresyncCores cores(config);
    CoresyncCores::Controller controller;
    EXPECT_EQ(cores.change(controller, signals), CoreChange::kGrant);
    return cores.change(controller, signals) == CoreChange::kGrant;
  };
  EXPECT_FALSE(grants_twice(true));
  EXPECT_TRUE(grants_twice(false));
}

TEST_F(CoresyncTest, without_credits_it_parks_as_shenango_does) {
  server_.open_sessions = server_.credits_out = 0;
  EXPECT_EQ(asks(core_), IdleAction::kPark);
}

uint64_t seed() {
  const char* text = std::getenv("RUBATO_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

// Cores that poll, find work, park and wake, while sessions drain and credits come and go.
TEST_F(CoresyncTest, nothing_stays_withheld_when_no_core_parks) {
  SCOPED_TRACE("RUBATO_SEED=" + std::to_string(seed()));
  Prng prng(seed());
  constexpr uint32_t kCores = 4;
  std::vector<CoresyncCores::Idle> idle(kCores);
  std::vector<bool> parked(kCores);
  const auto resume = [&](uint32_t core) {
    cores_.resumed(idle[core], server_);
    server_.granted += parked[core] ? 1 : 0;
    parked[core] = false;
  };
  uint64_t parked_with_credits = 0;
  for (int step = 0; step < 200'000; ++step) {
    const uint32_t core = prng.below(kCores);
    switch (prng.below(8)) {
      case 0: server_.drained_sessions = prng.below(10) == 0 ? 1 : 0; break;
      case 1:
      case 2: server_.credits_out = 100 + prng.below(600); break;
      case 3: resume(core); break;
      default:
        if (parked[core] || asks(idle[core]) != IdleAction::kPark) break;
        parked[core] = true;
        parked_with_credits += idle[core].withheld > 0 ? 1u : 0u;
        --server_.granted;
    }
    int64_t held = 0;
    uint32_t parking = 0;
    for (const CoresyncCores::Idle& one : idle) {
      held += one.withheld;
      parking += one.parking ? 1 : 0;
    }
    ASSERT_EQ(server_.pool.withheld(), held) << "after step " << step;
    ASSERT_EQ(parking, server_.somebody_parks ? 1u : 0u) << "after step " << step;
    if (prng.below(50) == 0) {
      for (uint32_t each = 0; each < kCores; ++each) resume(each);
      ASSERT_EQ(server_.pool.withheld(), 0) << "after step " << step;
    }
  }
  EXPECT_GT(parked_with_credits, 1000u);
}

}  // namespace
}  // namespace rubato::overload
