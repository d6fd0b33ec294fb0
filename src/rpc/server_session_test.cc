// SPDX-License-Identifier: Apache-2.0
#include "rpc/server_session.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "mechanism/clock/clock.h"
#include "rpc/testing/echo_session.h"

namespace rubato::rpc {
namespace {

using testing::framed;
using testing::Peer;

// Nothing here is to be dropped because the test is slow.
AdmissionOptions patient() {
  AdmissionOptions options;
  options.credits.target_delay = Nanos::seconds(100);
  options.credits.refuse_delay = Nanos::seconds(200);
  return options;
}

class ServerSessionTest : public ::testing::Test {
 protected:
  ServerSessionTest() : admission_(patient()), peer_(admission_) {}

  // As of now.
  const AdmissionController::Pool& pool() {
    admission_.delay(now());
    return admission_.pool();
  }
  void hello() {
    ASSERT_FALSE(peer_.send({Kind::kHello, 7, 0, 0, {}}));
    ASSERT_EQ(peer_.answer().size(), 1u);
  }
  void expect_fault(Fault fault) {
    EXPECT_TRUE(peer_.request.at_once);
    const auto said = peer_.answer();
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(said[0].message.kind, Kind::kError);
    EXPECT_EQ(said[0].message.id, 0u);
    EXPECT_EQ(said[0].message.amount, static_cast<uint32_t>(fault));
    EXPECT_FALSE(said[0].body.empty());
    EXPECT_TRUE(peer_.request.close_after);
    EXPECT_EQ(pool().sessions(), 0);
    EXPECT_EQ(pool().pending(), 0);
    EXPECT_EQ(pool().issued(), 0);
  }

  AdmissionController admission_;
  Peer peer_;
};

TEST_F(ServerSessionTest, hello_is_welcomed_with_a_credit) {
  EXPECT_FALSE(peer_.send({Kind::kHello, 7, 0, 0, {}}));
  const auto said = peer_.answer();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].message.kind, Kind::kWelcome);
  EXPECT_EQ(said[0].message.session, 7u);
  EXPECT_GE(said[0].message.amount, 1u);
  EXPECT_FALSE(peer_.request.close_after);
  EXPECT_EQ(pool().sessions(), 1);
}

TEST_F(ServerSessionTest, a_request_may_come_with_the_hello) {
  ASSERT_TRUE(peer_.send({Kind::kHello, 7, 0, 5, "ping"}));
  EXPECT_EQ(peer_.server.body, "ping");
  ASSERT_TRUE(peer_.started());
  peer_.reply("pong");
  const auto said = peer_.said();
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0].message.kind, Kind::kWelcome);
  EXPECT_EQ(said[1].message.kind, Kind::kResponse);
  EXPECT_EQ(said[1].message.id, 5u);
  EXPECT_EQ(said[1].body, "pong");
  EXPECT_EQ(said[0].message.amount, said[1].message.amount);
}

// A newcomer at a busy server with few sessions waits for long until the pool has grown by a
// credit; its first request need not, and who was served keeps one.
TEST_F(ServerSessionTest, a_session_that_was_welcomed_without_credit_may_send_its_first_request) {
  hello();
  Peer late(admission_);
  ASSERT_FALSE(late.send({Kind::kHello, 7, 0, 0, {}}));
  ASSERT_EQ(late.answer()[0].message.amount, 0u);
  ASSERT_TRUE(late.send({Kind::kRequest, 7, 0, 1, "ping"}));
  ASSERT_TRUE(late.started());
  late.reply("pong");
  const auto said = late.said();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].message.kind, Kind::kResponse);
  EXPECT_EQ(said[0].message.amount, 1u);
}

TEST_F(ServerSessionTest, every_request_is_answered_with_a_credit) {
  hello();
  for (uint64_t id = 1; id < 100; ++id) {
    ASSERT_TRUE(peer_.send({Kind::kRequest, 7, 0, id, "ping"}));
    EXPECT_EQ(pool().pending(), 1);
    ASSERT_TRUE(peer_.started());
    peer_.reply("pong");
    const auto said = peer_.said();
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(said[0].message.id, id);
    EXPECT_GE(said[0].message.amount, 1u);
    EXPECT_EQ(pool().pending(), 0);
  }
  EXPECT_EQ(admission_.counts().served, 99u);
}

TEST_F(ServerSessionTest, a_request_that_failed_leaves_the_session_open) {
  hello();
  ASSERT_TRUE(peer_.send({Kind::kRequest, 7, 0, 1, "ping"}));
  peer_.fail();
  const auto said = peer_.said();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].message.kind, Kind::kError);
  EXPECT_EQ(said[0].message.id, 1u);
  EXPECT_TRUE(peer_.send({Kind::kRequest, 7, 0, 2, "ping"}));
}

TEST_F(ServerSessionTest, who_had_no_credit_is_told_of_one_behind_a_failure) {
  hello();
  ASSERT_TRUE(peer_.send({Kind::kRequest, 7, 3, 1, "ping"}));
  const auto refused = peer_.answer();
  ASSERT_EQ(refused.size(), 1u);
  ASSERT_EQ(refused[0].message.amount, 0u);
  // It was on its way already.
  ASSERT_TRUE(peer_.send({Kind::kRequest, 7, 3, 2, "ping"}));
  peer_.fail();
  const auto said = peer_.said();
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0].message.kind, Kind::kError);
  EXPECT_EQ(said[1].message.kind, Kind::kCredit);
  EXPECT_EQ(said[1].message.id, 0u);
  EXPECT_GE(said[1].message.amount, 1u);
}

TEST_F(ServerSessionTest, what_cannot_be_queued_is_refused) {
  hello();
  ASSERT_TRUE(peer_.send({Kind::kRequest, 7, 0, 1, "ping"}));
  const auto said = peer_.answer();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].message.kind, Kind::kRefusal);
  EXPECT_EQ(decode_refusal(said[0].body).reason, Reason::kQueueFull);
  EXPECT_EQ(pool().pending(), 0);
}

TEST_F(ServerSessionTest, a_demand_is_answered_with_the_credit) {
  hello();
  EXPECT_FALSE(peer_.send({Kind::kDemand, 7, 5, 0, {}}));
  const auto said = peer_.answer();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].message.kind, Kind::kCredit);
}

TEST_F(ServerSessionTest, a_huge_demand_gets_no_more_than_a_session_may_have) {
  EXPECT_FALSE(peer_.send({Kind::kHello, 7, 0xffffffff, 0, {}}));
  ASSERT_EQ(peer_.answer().size(), 1u);
  const int64_t limit = admission_.options().credits.session_limit;
  for (uint64_t id = 1; id < 1000; ++id) {
    ASSERT_TRUE(peer_.send({Kind::kRequest, 7, 0xffffffff, id, {}}));
    peer_.reply({});
    EXPECT_LE(peer_.said().at(0).message.amount, limit);
  }
}

// The original's server stopped at this one.
TEST_F(ServerSessionTest, a_demand_after_another_is_nothing_special) {
  hello();
  for (const uint32_t demand : {5u, 3u, 0u, 0xffffffffu, 1u}) {
    EXPECT_FALSE(peer_.send({Kind::kDemand, 7, demand, 0, {}}));
    EXPECT_EQ(peer_.answer().size(), 1u);
  }
}

TEST_F(ServerSessionTest, goodbye_gives_the_credits_back) {
  hello();
  EXPECT_FALSE(peer_.send({Kind::kGoodbye, 7, 0, 0, {}}));
  EXPECT_TRUE(peer_.answer().empty());
  EXPECT_TRUE(peer_.request.close_after);
  EXPECT_EQ(pool().sessions(), 0);
  EXPECT_EQ(pool().issued(), 0);
}

TEST_F(ServerSessionTest, before_hello_nothing_is_taken) {
  EXPECT_FALSE(peer_.send({Kind::kRequest, 7, 0, 1, "ping"}));
  expect_fault(Fault::kNoSession);
}

TEST_F(ServerSessionTest, nothing_is_said_behind_the_error_that_ended_it) {
  hello();
  ASSERT_TRUE(peer_.send({Kind::kRequest, 7, 0, 1, "ping"}));
  ServerRequest running = peer_.server;
  ASSERT_TRUE(peer_.session.admits(running));
  EXPECT_FALSE(peer_.send({Kind::kRequest, 8, 0, 2, "ping"}));
  expect_fault(Fault::kSession);
  peer_.session.complete(peer_.request, running, peer_.buffer(), "pong");
  EXPECT_TRUE(peer_.said().empty());
  EXPECT_EQ(admission_.delay(now()), Nanos());
}

TEST_F(ServerSessionTest, another_session_is_not_spoken_for) {
  hello();
  EXPECT_FALSE(peer_.send({Kind::kRequest, 8, 0, 1, "ping"}));
  expect_fault(Fault::kSession);
}

TEST_F(ServerSessionTest, a_second_hello_is_an_error) {
  hello();
  EXPECT_FALSE(peer_.send({Kind::kHello, 7, 0, 0, {}}));
  expect_fault(Fault::kSession);
}

TEST_F(ServerSessionTest, credits_are_not_a_clients_to_send) {
  hello();
  EXPECT_FALSE(peer_.send({Kind::kCredit, 7, 60, 0, {}}));
  expect_fault(Fault::kKind);
}

TEST_F(ServerSessionTest, what_is_no_frame_is_an_error) {
  EXPECT_FALSE(peer_.send("GET / HTTP/1.1\r\n"));
  EXPECT_EQ(peer_.last.length_bytes, 16u);
  expect_fault(Fault::kMagic);
}

TEST_F(ServerSessionTest, more_sessions_than_are_taken_are_told_so) {
  AdmissionOptions options = patient();
  options.max_sessions = 1;
  AdmissionController admission(options);
  Peer first(admission);
  Peer second(admission);
  EXPECT_FALSE(first.send({Kind::kHello, 7, 0, 0, {}}));
  EXPECT_EQ(first.answer().at(0).message.kind, Kind::kWelcome);
  EXPECT_FALSE(second.send({Kind::kHello, 7, 0, 0, {}}));
  const auto said = second.answer();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].message.amount, static_cast<uint32_t>(Fault::kSessions));
  EXPECT_EQ(admission.counts().sessions_refused, 1u);
  EXPECT_EQ(admission.pool().sessions(), 1);
}

TEST_F(ServerSessionTest, a_request_that_waited_too_long_is_refused_when_its_turn_comes) {
  AdmissionOptions options = patient();
  options.credits.refuse_delay = Nanos::millis(1);
  AdmissionController admission(options);
  Peer peer(admission);
  ASSERT_TRUE(peer.send({Kind::kHello, 7, 0, 1, "ping"}));
  peer.session.set_class(peer.server, 2);
  const Instant since = now();
  while (now() - since < Nanos::millis(2)) continue;
  EXPECT_FALSE(peer.started());
  const auto said = peer.said();
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[1].message.kind, Kind::kRefusal);
  EXPECT_EQ(said[1].message.amount, 0u);
  const RefusalBody refuse = decode_refusal(said[1].body);
  EXPECT_EQ(refuse.reason, Reason::kOverloaded);
  EXPECT_EQ(refuse.of_class, 2);
  EXPECT_GT(refuse.retry_after_us, 0u);
  admission.delay(now());
  EXPECT_EQ(admission.pool().drained(), 1);
}

TEST_F(ServerSessionTest, a_request_is_refused_on_arrival_while_others_wait_for_too_long) {
  AdmissionOptions options = patient();
  options.credits.refuse_delay = Nanos::millis(1);
  AdmissionController admission(options);
  Peer waits(admission);
  Peer comes(admission);
  ASSERT_TRUE(waits.send({Kind::kHello, 7, 0, 1, "ping"}));
  const Instant since = now();
  while (now() - since < Nanos::millis(2)) continue;
  EXPECT_GE(admission.delay(now()), Nanos::millis(2));
  EXPECT_FALSE(comes.send({Kind::kHello, 7, 0, 1, "ping"}));
  const auto said = comes.answer();
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(decode_refusal(said[1].body).reason, Reason::kOverloaded);
  EXPECT_EQ(admission.counts().refused[1], 1u);
  EXPECT_FALSE(comes.request.close_after);
}

TEST_F(ServerSessionTest, what_overload_control_refuses_is_told_apart_from_full_queues) {
  for (const auto& [why, reason] : {std::pair{Refusal::kFull, Reason::kQueueFull},
                                    std::pair{Refusal::kDelay, Reason::kOverloaded},
                                    std::pair{Refusal::kShare, Reason::kOverloaded}}) {
    Peer peer(admission_);
    ASSERT_TRUE(peer.send({Kind::kHello, 7, 0, 1, "ping"}));
    peer.request.refusal = why;
    const auto said = peer.answer();
    ASSERT_EQ(said.size(), 2u);
    EXPECT_EQ(decode_refusal(said[1].body).reason, reason);
  }
}

TEST_F(ServerSessionTest, a_session_that_ends_under_its_request_waits_no_more) {
  {
    Peer gone(admission_);
    ASSERT_TRUE(gone.send({Kind::kHello, 8, 0, 1, "ping"}));
    EXPECT_GT(admission_.delay(now() + Nanos::seconds(1)), Nanos());
  }
  EXPECT_EQ(admission_.delay(now() + Nanos::seconds(1)), Nanos());
  hello();
  ASSERT_TRUE(peer_.send({Kind::kRequest, 7, 0, 1, "ping"}));
  EXPECT_TRUE(peer_.started());
}

TEST_F(ServerSessionTest, a_long_reply_follows_its_header_in_pieces) {
  ASSERT_TRUE(peer_.send({Kind::kHello, 7, 0, 5, "ping"}));
  ASSERT_TRUE(peer_.started());
  ASSERT_TRUE(peer_.begin_reply(6));
  peer_.buffer().append("abc");
  peer_.buffer().append("def");
  const auto said = peer_.said();
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[1].message.kind, Kind::kResponse);
  EXPECT_EQ(said[1].body, "abcdef");
}

TEST_F(ServerSessionTest, a_reply_over_the_limit_of_frames_fails_its_request_alone) {
  hello();
  ASSERT_TRUE(peer_.send({Kind::kRequest, 7, 0, 4, "ping"}));
  EXPECT_FALSE(peer_.begin_reply(kMaxBodyBytes + 1));
  const auto said = peer_.said();
  ASSERT_GE(said.size(), 1u);
  EXPECT_EQ(said[0].message.kind, Kind::kError);
  EXPECT_EQ(said[0].message.id, 4u);
  EXPECT_EQ(said[0].message.amount, static_cast<uint32_t>(Fault::kTooLarge));
  EXPECT_FALSE(peer_.request.close_after);
  EXPECT_EQ(pool().sessions(), 1);
}

TEST_F(ServerSessionTest, who_may_send_little_yet_is_held_to_it) {
  hello();
  peer_.session.set_body_limit(3);
  ASSERT_FALSE(peer_.send({Kind::kRequest, 7, 0, 1, "ping"}));
  expect_fault(Fault::kTooLarge);
}

// Any bytes: an answer, or more is wanted; never a crash, and the books are right after it.
TEST_F(ServerSessionTest, whatever_comes_is_answered_or_over) {
  Prng dice(1);
  const std::vector<Message> messages{
      {Kind::kHello, 7, 1, 0, {}},  {Kind::kHello, 7, 1, 9, "x"},  {Kind::kRequest, 7, 2, 1, "x"},
      {Kind::kDemand, 7, 3, 0, {}}, {Kind::kGoodbye, 7, 0, 0, {}}, {Kind::kRequest, 8, 0, 1, "x"}};
  for (int round = 0; round < 3000; ++round) {
    Peer peer(admission_);
    bool over = false;
    for (int step = 0; step < 20 && !over; ++step) {
      std::string bytes =
          framed(step == 0 && dice.below(4) > 0
                     ? messages[dice.below(2)]
                     : messages[dice.below(static_cast<uint32_t>(messages.size()))]);
      if (dice.below(4) == 0) {
        bytes[dice.below(static_cast<uint32_t>(bytes.size()))] = static_cast<char>(dice.next());
      }
      if (peer.send(bytes)) {
        if (dice.below(2) == 0) {
          peer.reply("y");
        } else {
          peer.session.answer(peer.request, peer.server);
        }
      } else if (peer.last.state == FrameState::kComplete) {
        peer.session.answer(peer.request, peer.server);
        over = peer.request.close_after;
      }
      peer.said();
    }
  }
  EXPECT_EQ(pool().sessions(), 0);
  EXPECT_EQ(pool().pending(), 0);
  EXPECT_EQ(pool().issued(), 0);
  EXPECT_EQ(pool().drained(), 0);
  EXPECT_EQ(admission_.delay(now()), Nanos());
}

std::string ranked(Rank rank, std::string_view body) {
  std::string bytes(kRankBytes, '\0');
  encode_rank(bytes.data(), rank);
  return bytes.append(body);
}

TEST_F(ServerSessionTest, a_rank_goes_to_the_scheduler_and_not_to_the_application) {
  hello();
  const std::string body = ranked({3, 127}, "ping");
  ASSERT_TRUE(peer_.send({Kind::kRankedRequest, 7, 0, 5, body}));
  EXPECT_EQ(peer_.server.body, "ping");
  EXPECT_EQ(peer_.request.priority, 3);
  EXPECT_EQ(peer_.request.client_priority, 3);
  EXPECT_EQ(peer_.request.cohort, 128);
  ASSERT_TRUE(peer_.started());
  peer_.reply("pong");
  const auto said = peer_.said();
  ASSERT_EQ(said.size(), 1u) << "no limiter, no levels";
  EXPECT_EQ(said[0].body, "pong");
}

TEST_F(ServerSessionTest, a_rank_beyond_its_range_ends_the_session) {
  hello();
  const std::string body = ranked({8, 0}, "ping");
  peer_.send({Kind::kRankedRequest, 7, 0, 5, body});
  expect_fault(Fault::kFields);
}

TEST_F(ServerSessionTest, who_sends_ranks_hears_of_the_levels_when_they_change) {
  hello();
  const auto kinds_of = [&](Kind kind, uint16_t levels) {
    const std::string body = kind == Kind::kRankedRequest ? ranked({1, 2}, "ping") : "ping";
    EXPECT_TRUE(peer_.send({kind, 7, 0, 5, body}));
    EXPECT_TRUE(peer_.started());
    peer_.request.admitted_levels = levels;
    peer_.reply("pong");
    std::vector<std::pair<Kind, uint32_t>> kinds;
    for (const auto& sent : peer_.said()) {
      const bool told = sent.message.kind == Kind::kLevel;
      kinds.emplace_back(sent.message.kind, told ? sent.message.amount : 0);
    }
    return kinds;
  };
  using Kinds = std::vector<std::pair<Kind, uint32_t>>;
  const Kinds answer{{Kind::kResponse, 0}};
  EXPECT_EQ(kinds_of(Kind::kRankedRequest, overload::kLevels), answer) << "as it knows";
  EXPECT_EQ(kinds_of(Kind::kRequest, 500), answer) << "it did not ask";
  EXPECT_EQ(kinds_of(Kind::kRankedRequest, 500), (Kinds{{Kind::kLevel, 500}, answer[0]}));
  EXPECT_EQ(kinds_of(Kind::kRankedRequest, 500), answer);
  EXPECT_EQ(kinds_of(Kind::kRankedRequest, 499), (Kinds{{Kind::kLevel, 499}, answer[0]}));
}

TEST_F(ServerSessionTest, a_probe_is_answered_at_once_and_costs_no_credit) {
  hello();
  Peer busy(admission_);
  ASSERT_TRUE(busy.send({Kind::kHello, 8, 0, 1, "ping"}));
  ASSERT_TRUE(busy.started());
  pool();
  ASSERT_FALSE(peer_.send({Kind::kProbe, 7, 0, 9, {}}));
  const auto said = peer_.answer();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].message.kind, Kind::kLoad);
  EXPECT_EQ(said[0].message.id, 9u);
  EXPECT_EQ(said[0].message.amount, 1u) << "the other session's request is inside";
  EXPECT_EQ(decode_load(said[0].body).latency_us, 0u) << "nothing has ended since it was asked";
  ASSERT_TRUE(peer_.send({Kind::kRequest, 7, 0, 10, "ping"}));
  ASSERT_TRUE(peer_.started());
  peer_.reply("pong");
  peer_.said();
  EXPECT_FALSE(peer_.send({Kind::kProbe, 7, 0, 11, {}}));
  EXPECT_GE(decode_load(peer_.answer().at(0).body).latency_us, 1u);
  EXPECT_EQ(admission_.counts().probes, 2u);
  busy.reply("pong");
}

TEST_F(ServerSessionTest, a_probe_before_hello_finds_no_session) {
  peer_.send({Kind::kProbe, 7, 0, 9, {}});
  expect_fault(Fault::kNoSession);
}

}  // namespace
}  // namespace rubato::rpc
