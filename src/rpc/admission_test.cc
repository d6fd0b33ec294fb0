// SPDX-License-Identifier: Apache-2.0
#include "rpc/admission.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "mechanism/clock/clock.h"
#include "mechanism/cpu/this_worker.h"

namespace rubato::rpc {
namespace {

Instant at(int64_t us) { return Instant() + Nanos::micros(us); }

class AdmissionTest : public ::testing::Test {
 protected:
  AdmissionController admission_{AdmissionOptions{}};
};

TEST_F(AdmissionTest, the_oldest_that_was_not_started_is_the_delay) {
  AdmittedSession a(1);
  AdmittedSession b(2);
  QueuedRequest of_a;
  QueuedRequest of_b;
  admission_.open(a, 0, at(0));
  admission_.open(b, 0, at(0));
  EXPECT_EQ(admission_.delay(at(5)), Nanos());
  EXPECT_EQ(admission_.arrived(a, of_a, 0, at(10), at(10)), overload::Arrival::kServe);
  EXPECT_EQ(admission_.arrived(b, of_b, 0, at(20), at(20)), overload::Arrival::kServe);
  EXPECT_EQ(admission_.delay(at(30)), Nanos::micros(20));
  EXPECT_TRUE(admission_.started(of_a, at(30)));
  EXPECT_EQ(admission_.delay(at(30)), Nanos::micros(10));
  EXPECT_TRUE(admission_.started(of_b, at(30)));
  // What runs does not wait.
  EXPECT_EQ(admission_.delay(at(1000)), Nanos());
  admission_.replied(a, of_a, Nanos(), at(1000));
  admission_.replied(b, of_b, Nanos(), at(1000));
  admission_.close(a);
  admission_.close(b);
}

TEST_F(AdmissionTest, preempted_requests_are_late_by_a_target_in_proportion_to_their_service) {
  std::vector<std::unique_ptr<AdmittedSession>> members;
  std::vector<QueuedRequest> waiting(10);
  for (uint64_t i = 0; i < waiting.size(); ++i) {
    members.push_back(std::make_unique<AdmittedSession>(i));
    admission_.open(*members.back(), 0, at(0));
    ASSERT_EQ(admission_.arrived(*members[i], waiting[i], 0, at(1), at(1)),
              overload::Arrival::kServe);
    ASSERT_TRUE(admission_.started(waiting[i], at(1)));
  }
  EXPECT_EQ(admission_.delay(at(5000)), Nanos());  // nothing is known of what they take
  admission_.replied(*members[9], waiting[9], Nanos::micros(1000), at(5000));
  // One runs, and eight wait for 1000 us each: as long as they may, which is eight times their own.
  EXPECT_EQ(admission_.delay(at(5000)), admission_.options().credits.target_delay);
  admission_.replied(*members[8], waiting[8], Nanos::micros(1000), at(5000));
  EXPECT_EQ(admission_.delay(at(5000)), admission_.options().credits.target_delay * 7 / 8);
  for (uint64_t i = 0; i < 8; ++i) admission_.replied(*members[i], waiting[i], Nanos(), at(6000));
  EXPECT_EQ(admission_.delay(at(6000)), Nanos());
  for (auto& member : members) admission_.close(*member);
}

// Bytes that waited in the kernel behind a long request are taken in late, and waited all the same.
TEST_F(AdmissionTest, a_request_waits_since_its_bytes_came) {
  AdmittedSession a(1);
  AdmittedSession b(2);
  QueuedRequest of_a;
  QueuedRequest of_b;
  admission_.open(a, 0, at(0));
  admission_.open(b, 0, at(0));
  EXPECT_EQ(admission_.arrived(a, of_a, 0, at(90), at(100)), overload::Arrival::kServe);
  EXPECT_EQ(admission_.arrived(b, of_b, 0, at(20), at(100)), overload::Arrival::kServe);
  EXPECT_EQ(admission_.delay(at(100)), Nanos::micros(80));
  EXPECT_FALSE(admission_.started(of_b, at(200)));
  EXPECT_TRUE(admission_.started(of_a, at(200)));
  admission_.close(a);
  admission_.close(b);
}

TEST(AdmissionTargets, long_requests_with_a_target_of_their_own_are_late_by_that) {
  AdmissionOptions options;
  options.credits.target_delay = Nanos::micros(100);
  options.credits.refuse_delay = Nanos::micros(200);
  options.target_delay_long = Nanos::micros(1000);
  AdmissionController admission(options);
  AdmittedSession a(1);
  AdmittedSession b(2);
  QueuedRequest of_a;
  QueuedRequest of_b;
  admission.open(a, 0, at(0));
  admission.open(b, 0, at(0));
  EXPECT_EQ(admission.arrived(a, of_a, 0, at(0), at(0)), overload::Arrival::kServe);
  admission.classify(of_a, true);
  EXPECT_EQ(admission.delay(at(500)), Nanos::micros(50));  // half its target
  EXPECT_EQ(admission.arrived(b, of_b, 0, at(500), at(500)), overload::Arrival::kServe);
  admission.classify(of_b, false);
  EXPECT_EQ(admission.delay(at(650)), Nanos::micros(150));
  EXPECT_TRUE(admission.started(of_a, at(1900)));
  EXPECT_FALSE(admission.started(of_b, at(1900)));
  admission.refused(b, of_b, Reason::kOverloaded, at(1900));
  admission.replied(a, of_a, Nanos::micros(1000), at(3000));
  admission.close(a);
  admission.close(b);
}

// What the runtime refuses it counts itself: what is late when its turn comes, too.
TEST_F(AdmissionTest, its_own_rejects_are_counted_apart_by_class) {
  AdmittedSession member(1);
  const int64_t credit = admission_.open(member, 0, at(0));
  std::vector<QueuedRequest> credited(static_cast<size_t>(credit) + 1);  // one comes with hello
  for (QueuedRequest& request : credited) {
    ASSERT_EQ(admission_.arrived(member, request, 0, at(0), at(0)), overload::Arrival::kServe);
  }
  QueuedRequest beyond;
  ASSERT_EQ(admission_.arrived(member, beyond, 0, at(0), at(0)),
            overload::Arrival::kRefuseUncredited);
  admission_.classify(beyond, true);
  admission_.refused(member, beyond, Reason::kOverCredit, at(1));
  for (QueuedRequest& request : credited) {
    EXPECT_FALSE(admission_.started(request, at(1000)));
    admission_.refused(member, request, Reason::kOverloaded, at(1000));
  }
  const auto counts = admission_.counts();
  const auto refused_by_admission =
      [&](Reason reason) { return counts.refused_by_admission[static_cast<size_t>(reason)]; };
  EXPECT_EQ(refused_by_admission(Reason::kOverCredit), (std::array<uint64_t, 2>{0, 1}));
  EXPECT_EQ(refused_by_admission(Reason::kOverloaded), (std::array<uint64_t, 2>{0, 0}));
  EXPECT_EQ(counts.refused[static_cast<size_t>(Reason::kOverloaded)], credited.size());
  admission_.close(member);
}

TEST(AdmissionTargets, preempted_requests_are_late_by_the_target_of_long_ones_if_that_is_given) {
  AdmissionOptions options;
  options.target_delay_long = Nanos::micros(2000);
  AdmissionController admission(options);
  std::vector<std::unique_ptr<AdmittedSession>> members;
  std::vector<QueuedRequest> waiting(6);
  for (uint64_t i = 0; i < waiting.size(); ++i) {
    members.push_back(std::make_unique<AdmittedSession>(i));
    admission.open(*members.back(), 0, at(0));
    ASSERT_EQ(admission.arrived(*members[i], waiting[i], 0, at(1), at(1)),
              overload::Arrival::kServe);
    ASSERT_TRUE(admission.started(waiting[i], at(1)));
  }
  admission.replied(*members[5], waiting[5], Nanos::micros(1000), at(5000));
  // One runs, and four wait for 1000 us each: twice as long as they may.
  EXPECT_EQ(admission.delay(at(5000)), options.credits.target_delay * 2);
  for (uint64_t i = 0; i < 5; ++i) admission.replied(*members[i], waiting[i], Nanos(), at(6000));
  for (auto& member : members) admission.close(*member);
}

TEST(AdmissionAddresses, one_address_has_no_more_than_its_sessions_and_others_have_theirs) {
  AdmissionOptions options;
  options.sessions_per_address = 2;
  AdmissionController admission(options);
  AdmittedSession first(1, "10.0.0.1:1000");
  AdmittedSession second(2, "10.0.0.1:1001");
  AdmittedSession third(3, "10.0.0.1:1002");
  AdmittedSession other(4, "10.0.0.2:1000");
  EXPECT_GE(admission.open(first, 0, at(0)), 0);
  EXPECT_GE(admission.open(second, 0, at(0)), 0);
  EXPECT_EQ(admission.open(third, 0, at(0)), -1);
  EXPECT_GE(admission.open(other, 0, at(0)), 0);
  EXPECT_EQ(admission.counts().refused_of_address, 1u);
  EXPECT_EQ(admission.counts().opened, 3u);
  admission.close(third);  // it was never open
  EXPECT_EQ(admission.open(third, 0, at(0)), -1);
  admission.close(first);
  EXPECT_GE(admission.open(third, 0, at(0)), 0);
  for (AdmittedSession* member : {&second, &third, &other}) admission.close(*member);
  EXPECT_EQ(admission.pool().sessions(), 0);
}

// A server that finishes nothing learns that it is overloaded, by time alone.
TEST_F(AdmissionTest, the_pool_shrinks_while_no_request_finishes) {
  std::vector<std::unique_ptr<AdmittedSession>> members;
  for (uint64_t i = 0; i < 100; ++i) {
    members.push_back(std::make_unique<AdmittedSession>(i));
    admission_.open(*members.back(), 0, at(0));
  }
  int64_t us = 0;
  for (; us < 100'000; us += 20) admission_.tick(at(us));
  const int64_t before = admission_.pool().total();
  EXPECT_GT(before, 100);
  QueuedRequest stuck;
  ASSERT_EQ(admission_.arrived(*members[0], stuck, 0, at(us), at(us)), overload::Arrival::kServe);
  for (; us < 101'000; us += 20) admission_.tick(at(us));
  EXPECT_LT(admission_.pool().total(), before / 10);
  admission_.replied(*members[0], stuck, Nanos(), at(us));
  for (auto& member : members) admission_.close(*member);
}

TEST_F(AdmissionTest, an_idle_server_has_a_credit_for_whoever_comes) {
  AdmissionOptions options;
  options.workers = 1;
  AdmissionController admission(options);
  std::vector<std::unique_ptr<AdmittedSession>> members;
  for (uint64_t i = 0; i < 10; ++i) {
    members.push_back(std::make_unique<AdmittedSession>(i));
    const int64_t us = static_cast<int64_t>(i) * 20'000;
    admission.open(*members.back(), 0, at(us));
    admission.tick(at(us + 1'000));
    EXPECT_GE(admission.note_demand(*members.back(), 1, at(us + 11'000)), 1);
  }
  for (auto& member : members) admission.close(*member);
}

TEST_F(AdmissionTest, a_drained_session_is_told_once_there_is_a_credit_for_it) {
  AdmittedSession member(1);
  QueuedRequest late;
  admission_.open(member, 0, at(0));
  ASSERT_EQ(admission_.arrived(member, late, 5, at(0), at(0)), overload::Arrival::kServe);
  ASSERT_FALSE(admission_.started(late, at(1000)));
  EXPECT_EQ(admission_.refused(member, late, Reason::kOverloaded, at(1000)), 0);
  admission_.delay(at(1000));
  EXPECT_EQ(admission_.pool().drained(), 1);
  EXPECT_EQ(admission_.take_offer(member, now()), -1);
  admission_.tick(at(2000));
  EXPECT_GE(admission_.take_offer(member, now()), 1);
  EXPECT_EQ(admission_.take_offer(member, now()), -1);
  EXPECT_EQ(admission_.pool().drained(), 0);
  admission_.close(member);
}

TEST_F(AdmissionTest, what_an_answer_says_is_not_told_again) {
  AdmittedSession member(1);
  QueuedRequest waiting;
  admission_.open(member, 0, at(0));
  admission_.arrived(member, waiting, 5, at(0), at(0));
  admission_.refused(member, waiting, Reason::kOverloaded, at(1));
  admission_.tick(at(1000));  // told, but not sent yet
  admission_.note_demand(member, 5, at(1001));
  EXPECT_EQ(admission_.take_offer(member, now()), -1);
  admission_.close(member);
}

// Sessions come, send, are dropped, and go on several threads: the books are even in the end.
TEST(AdmissionThreads, leave_the_books_even) {
  AdmissionOptions options;
  options.workers = 5;
  AdmissionController admission(options);
  const auto work = [&](uint64_t seed) {
    set_this_worker(static_cast<uint32_t>(seed));
    Prng dice(seed);
    for (int round = 0; round < 2000; ++round) {
      AdmittedSession member(seed);
      admission.open(member, dice.below(10), now());
      for (uint32_t requests = dice.below(8); requests > 0; --requests) {
        QueuedRequest waiting;
        const Instant moment = now();
        const overload::Arrival arrival =
            admission.arrived(member, waiting, dice.below(10), moment, moment);
        if (arrival == overload::Arrival::kServe && admission.started(waiting, now())) {
          admission.replied(member, waiting, Nanos(), now());
        } else {
          admission.refused(member, waiting, Reason::kOverloaded, now());
        }
        if (dice.below(8) == 0) admission.tick(now());
        admission.take_offer(member, now());
      }
      admission.close(member);
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i <= 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admission.pool().sessions(), 0);
  EXPECT_EQ(admission.pool().issued(), 0);
  EXPECT_EQ(admission.pool().pending(), 0);
  EXPECT_EQ(admission.pool().drained(), 0);
  EXPECT_EQ(admission.delay(now()), Nanos());
  EXPECT_EQ(admission.counts().opened, 8000u);
}

}  // namespace
}  // namespace rubato::rpc
