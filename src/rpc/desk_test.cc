// SPDX-License-Identifier: Apache-2.0
#include "rpc/desk.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "mechanism/clock/clock.h"

namespace rubato::rpc {
namespace {

Instant at(int64_t us) { return Instant() + Nanos::micros(us); }

class DeskTest : public ::testing::Test {
 protected:
  CreditDesk desk_{DeskOptions{}};
};

TEST_F(DeskTest, the_oldest_that_was_not_started_is_the_delay) {
  CreditMember a(1);
  CreditMember b(2);
  Waiting of_a;
  Waiting of_b;
  desk_.open(a, 0, at(0));
  desk_.open(b, 0, at(0));
  EXPECT_EQ(desk_.delay(at(5)), Nanos());
  EXPECT_EQ(desk_.arrived(a, of_a, 0, at(10), at(10)), overload::Arrival::kServe);
  EXPECT_EQ(desk_.arrived(b, of_b, 0, at(20), at(20)), overload::Arrival::kServe);
  EXPECT_EQ(desk_.delay(at(30)), Nanos::micros(20));
  EXPECT_TRUE(desk_.started(of_a, at(30)));
  EXPECT_EQ(desk_.delay(at(30)), Nanos::micros(10));
  EXPECT_TRUE(desk_.started(of_b, at(30)));
  // What runs does not wait.
  EXPECT_EQ(desk_.delay(at(1000)), Nanos());
  desk_.replied(a, of_a, Nanos(), at(1000));
  desk_.replied(b, of_b, Nanos(), at(1000));
  desk_.close(a);
  desk_.close(b);
}

TEST_F(DeskTest, preempted_requests_are_late_by_a_target_in_proportion_to_their_service) {
  std::vector<std::unique_ptr<CreditMember>> members;
  std::vector<Waiting> waiting(10);
  for (uint64_t i = 0; i < waiting.size(); ++i) {
    members.push_back(std::make_unique<CreditMember>(i));
    desk_.open(*members.back(), 0, at(0));
    ASSERT_EQ(desk_.arrived(*members[i], waiting[i], 0, at(1), at(1)), overload::Arrival::kServe);
    ASSERT_TRUE(desk_.started(waiting[i], at(1)));
  }
  EXPECT_EQ(desk_.delay(at(5000)), Nanos());  // nothing is known of what they take
  desk_.replied(*members[9], waiting[9], Nanos::micros(1000), at(5000));
  // One runs, and eight wait for 1000 us each: as long as they may, which is eight times their own.
  EXPECT_EQ(desk_.delay(at(5000)), desk_.options().credits.target_delay);
  desk_.replied(*members[8], waiting[8], Nanos::micros(1000), at(5000));
  EXPECT_EQ(desk_.delay(at(5000)), desk_.options().credits.target_delay * 7 / 8);
  for (uint64_t i = 0; i < 8; ++i) desk_.replied(*members[i], waiting[i], Nanos(), at(6000));
  EXPECT_EQ(desk_.delay(at(6000)), Nanos());
  for (auto& member : members) desk_.close(*member);
}

// Bytes that waited in the kernel behind a long request are taken in late, and waited all the same.
TEST_F(DeskTest, a_request_waits_since_its_bytes_came) {
  CreditMember a(1);
  CreditMember b(2);
  Waiting of_a;
  Waiting of_b;
  desk_.open(a, 0, at(0));
  desk_.open(b, 0, at(0));
  EXPECT_EQ(desk_.arrived(a, of_a, 0, at(90), at(100)), overload::Arrival::kServe);
  EXPECT_EQ(desk_.arrived(b, of_b, 0, at(20), at(100)), overload::Arrival::kServe);
  EXPECT_EQ(desk_.delay(at(100)), Nanos::micros(80));
  EXPECT_FALSE(desk_.started(of_b, at(200)));
  EXPECT_TRUE(desk_.started(of_a, at(200)));
  desk_.close(a);
  desk_.close(b);
}

TEST(DeskTargets, long_requests_with_a_target_of_their_own_are_late_by_that) {
  DeskOptions options;
  options.credits.target_delay = Nanos::micros(100);
  options.credits.drop_delay = Nanos::micros(200);
  options.target_delay_long = Nanos::micros(1000);
  CreditDesk desk(options);
  CreditMember a(1);
  CreditMember b(2);
  Waiting of_a;
  Waiting of_b;
  desk.open(a, 0, at(0));
  desk.open(b, 0, at(0));
  EXPECT_EQ(desk.arrived(a, of_a, 0, at(0), at(0)), overload::Arrival::kServe);
  desk.classify(of_a, true);
  EXPECT_EQ(desk.delay(at(500)), Nanos::micros(50));  // half its target
  EXPECT_EQ(desk.arrived(b, of_b, 0, at(500), at(500)), overload::Arrival::kServe);
  desk.classify(of_b, false);
  EXPECT_EQ(desk.delay(at(650)), Nanos::micros(150));
  EXPECT_TRUE(desk.started(of_a, at(1900)));
  EXPECT_FALSE(desk.started(of_b, at(1900)));
  EXPECT_EQ(desk.counts().late.value(), 1u);
  desk.dropped(b, of_b, Reason::kOverloaded, at(1900));
  desk.replied(a, of_a, Nanos::micros(1000), at(3000));
  desk.close(a);
  desk.close(b);
}

// What the runtime refuses it counts itself.
TEST_F(DeskTest, its_own_rejects_are_counted_apart_by_class) {
  CreditMember member(1);
  Waiting waiting;
  desk_.open(member, 0, at(0));
  const auto& judged = desk_.counts().judged[static_cast<size_t>(Reason::kOverloaded)];
  desk_.arrived(member, waiting, 0, at(0), at(0));
  desk_.dropped(member, waiting, Reason::kOverloaded, at(1));  // the runtime's
  EXPECT_EQ(judged[0].value() + judged[1].value(), 0u);
  desk_.arrived(member, waiting, 0, at(0), at(0));
  desk_.classify(waiting, true);
  EXPECT_FALSE(desk_.started(waiting, at(1000)));
  desk_.dropped(member, waiting, Reason::kOverloaded, at(1000));
  EXPECT_EQ(judged[1].value(), 1u);
  EXPECT_EQ(judged[0].value(), 0u);
  EXPECT_EQ(desk_.counts().rejected[static_cast<size_t>(Reason::kOverloaded)].value(), 2u);
  desk_.close(member);
}

TEST(DeskTargets, preempted_requests_are_late_by_the_target_of_long_ones_if_that_is_given) {
  DeskOptions options;
  options.target_delay_long = Nanos::micros(2000);
  CreditDesk desk(options);
  std::vector<std::unique_ptr<CreditMember>> members;
  std::vector<Waiting> waiting(6);
  for (uint64_t i = 0; i < waiting.size(); ++i) {
    members.push_back(std::make_unique<CreditMember>(i));
    desk.open(*members.back(), 0, at(0));
    ASSERT_EQ(desk.arrived(*members[i], waiting[i], 0, at(1), at(1)), overload::Arrival::kServe);
    ASSERT_TRUE(desk.started(waiting[i], at(1)));
  }
  desk.replied(*members[5], waiting[5], Nanos::micros(1000), at(5000));
  // One runs, and four wait for 1000 us each: twice as long as they may.
  EXPECT_EQ(desk.delay(at(5000)), options.credits.target_delay * 2);
  for (uint64_t i = 0; i < 5; ++i) desk.replied(*members[i], waiting[i], Nanos(), at(6000));
  for (auto& member : members) desk.close(*member);
}

TEST(DeskAddresses, one_address_has_no_more_than_its_sessions_and_others_have_theirs) {
  DeskOptions options;
  options.sessions_per_address = 2;
  CreditDesk desk(options);
  CreditMember first(1, "10.0.0.1:1000");
  CreditMember second(2, "10.0.0.1:1001");
  CreditMember third(3, "10.0.0.1:1002");
  CreditMember other(4, "10.0.0.2:1000");
  EXPECT_GE(desk.open(first, 0, at(0)), 0);
  EXPECT_GE(desk.open(second, 0, at(0)), 0);
  EXPECT_EQ(desk.open(third, 0, at(0)), -1);
  EXPECT_GE(desk.open(other, 0, at(0)), 0);
  EXPECT_EQ(desk.counts().refused_of_address.value(), 1u);
  EXPECT_EQ(desk.counts().opened.value(), 3u);
  desk.close(third);  // it was never open
  EXPECT_EQ(desk.open(third, 0, at(0)), -1);
  desk.close(first);
  EXPECT_GE(desk.open(third, 0, at(0)), 0);
  for (CreditMember* member : {&second, &third, &other}) desk.close(*member);
  EXPECT_EQ(desk.pool().sessions(), 0);
}

// A server that finishes nothing learns that it is overloaded, by time alone.
TEST_F(DeskTest, the_pool_shrinks_while_no_request_finishes) {
  std::vector<std::unique_ptr<CreditMember>> members;
  for (uint64_t i = 0; i < 100; ++i) {
    members.push_back(std::make_unique<CreditMember>(i));
    desk_.open(*members.back(), 0, at(0));
  }
  int64_t us = 0;
  for (; us < 100'000; us += 20) desk_.tick(at(us));
  const int64_t before = desk_.pool().total();
  EXPECT_GT(before, 100);
  Waiting stuck;
  ASSERT_EQ(desk_.arrived(*members[0], stuck, 0, at(us), at(us)), overload::Arrival::kServe);
  for (; us < 101'000; us += 20) desk_.tick(at(us));
  EXPECT_LT(desk_.pool().total(), before / 10);
  desk_.replied(*members[0], stuck, Nanos(), at(us));
  for (auto& member : members) desk_.close(*member);
}

TEST_F(DeskTest, an_idle_server_has_a_credit_for_whoever_comes) {
  DeskOptions options;
  options.workers = 1;
  CreditDesk desk(options);
  std::vector<std::unique_ptr<CreditMember>> members;
  for (uint64_t i = 0; i < 10; ++i) {
    members.push_back(std::make_unique<CreditMember>(i));
    const int64_t us = static_cast<int64_t>(i) * 20'000;
    desk.open(*members.back(), 0, at(us));
    desk.tick(at(us + 1'000));
    EXPECT_GE(desk.demanded(*members.back(), 1, at(us + 11'000)), 1);
  }
  for (auto& member : members) desk.close(*member);
}

TEST_F(DeskTest, a_drained_session_is_told_once_there_is_a_credit_for_it) {
  CreditMember member(1);
  Waiting late;
  desk_.open(member, 0, at(0));
  ASSERT_EQ(desk_.arrived(member, late, 5, at(0), at(0)), overload::Arrival::kServe);
  ASSERT_FALSE(desk_.started(late, at(1000)));
  EXPECT_EQ(desk_.dropped(member, late, Reason::kOverloaded, at(1000)), 0);
  EXPECT_EQ(desk_.pool().drained(), 1);
  EXPECT_EQ(member.take_told(), -1);
  desk_.tick(at(2000));
  EXPECT_GE(member.take_told(), 1);
  EXPECT_EQ(member.take_told(), -1);
  EXPECT_EQ(desk_.pool().drained(), 0);
  desk_.close(member);
}

TEST_F(DeskTest, what_an_answer_says_is_not_told_again) {
  CreditMember member(1);
  Waiting waiting;
  desk_.open(member, 0, at(0));
  desk_.arrived(member, waiting, 5, at(0), at(0));
  desk_.dropped(member, waiting, Reason::kOverloaded, at(1));
  desk_.tick(at(1000));  // told, but not sent yet
  desk_.demanded(member, 5, at(1001));
  EXPECT_EQ(member.take_told(), -1);
  desk_.close(member);
}

// Sessions come, send, are dropped, and go on several threads: the books are even in the end.
TEST_F(DeskTest, threads_leave_the_books_even) {
  const auto work = [&](uint64_t seed) {
    Prng dice(seed);
    for (int round = 0; round < 2000; ++round) {
      CreditMember member(seed);
      desk_.open(member, dice.below(10), now());
      for (uint32_t requests = dice.below(8); requests > 0; --requests) {
        Waiting waiting;
        const Instant moment = now();
        const overload::Arrival arrival =
            desk_.arrived(member, waiting, dice.below(10), moment, moment);
        if (arrival == overload::Arrival::kServe && desk_.started(waiting, now())) {
          desk_.replied(member, waiting, Nanos(), now());
        } else {
          desk_.dropped(member, waiting, Reason::kOverloaded, now());
        }
        if (dice.below(8) == 0) desk_.tick(now());
        member.take_told();
      }
      desk_.close(member);
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i <= 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(desk_.pool().sessions(), 0);
  EXPECT_EQ(desk_.pool().issued(), 0);
  EXPECT_EQ(desk_.pool().pending(), 0);
  EXPECT_EQ(desk_.pool().drained(), 0);
  EXPECT_EQ(desk_.delay(now()), Nanos());
  EXPECT_EQ(desk_.counts().opened.value(), 8000u);
}

}  // namespace
}  // namespace rubato::rpc
