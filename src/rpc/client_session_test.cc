// SPDX-License-Identifier: Apache-2.0
#include "rpc/client_session.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "rpc/testing/echo_session.h"

namespace rubato::rpc {
namespace {

using testing::framed;

Instant at(int64_t us) { return Instant() + Nanos::micros(us); }

class ClientSessionTest : public ::testing::Test, public ClientEvents {
 protected:
  void on_end(const Ended& ended) override {
    ends_[ended.tag].push_back(ended.ending);
    bodies_[ended.tag] = ended.body;
    reject_ = ended.refuse;
  }
  void on_load(const overload::ServerLoad& load) override { load_ = load; }
  ClientSession& make(ClientOptions options = {}) {
    datagrams_ = options.datagrams;
    client_ = std::make_unique<ClientSession>(options, *this);
    return *client_;
  }
  // The frames that the client sends now.
  std::vector<Message> frames(int64_t us = 0) {
    std::vector<Message> all;
    bytes_.clear();
    while (client_->next_frame(bytes_, at(us))) continue;
    for (std::string_view rest = bytes_; !rest.empty();) {
      if (datagrams_) {
        token_ = decode_token(rest);
        rest.remove_prefix(kTokenBytes);
      }
      const Decoded found = decode(rest, Side::kClient);
      EXPECT_EQ(found.state, Decoded::State::kComplete);
      if (found.state != Decoded::State::kComplete) break;
      all.push_back(found.message);
      rest.remove_prefix(found.length);
    }
    return all;
  }
  bool hear(Kind kind, uint32_t amount, uint64_t id = 0, std::string_view body = {},
            int64_t us = 0) {
    return client_->receive(framed({kind, 1, amount, id, body}), at(us)).ok();
  }
  std::vector<Ending> ends(uint64_t tag) { return ends_[tag]; }
  // The session is open, has had its first request, and has no credit.
  void open_without_credit() {
    client_->submit(99, "first", at(0));
    const auto sent = frames();
    ASSERT_EQ(sent.size(), 1u);
    hear(Kind::kWelcome, 1);
    hear(Kind::kRefusal, 0, sent[0].id, std::string(kRefusalBytes, '\0'));
  }

  std::unique_ptr<ClientSession> client_;
  std::map<uint64_t, std::vector<Ending>> ends_;
  std::map<uint64_t, std::string> bodies_;
  RefusalBody reject_;
  overload::ServerLoad load_;
  std::string bytes_;
  bool datagrams_ = false;
  uint64_t token_ = 0;  // of the last frame
};

using E = Ending;

TEST_F(ClientSessionTest, the_first_request_goes_with_the_hello) {
  ClientSession& client = make();
  client.submit(10, "a", at(0));
  client.submit(11, "b", at(0));
  const auto sent = frames();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind, Kind::kHello);
  EXPECT_EQ(sent[0].body, "a");
  EXPECT_EQ(sent[0].amount, 1u);
  EXPECT_FALSE(client.open());
  ASSERT_TRUE(hear(Kind::kWelcome, 1));
  EXPECT_TRUE(frames().empty());  // one is unanswered, and one is allowed
  ASSERT_TRUE(hear(Kind::kResponse, 1, sent[0].id, "A"));
  EXPECT_EQ(ends(10), std::vector{E::kReply});
  EXPECT_EQ(bodies_[10], "A");
  EXPECT_EQ(frames().size(), 1u);
}

TEST_F(ClientSessionTest, no_more_is_unanswered_than_the_credit) {
  ClientSession& client = make();
  frames();
  hear(Kind::kWelcome, 3);
  for (uint64_t i = 0; i < 10; ++i) client.submit(i, "x", at(0));
  const auto sent = frames();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].amount, 9u);
  EXPECT_EQ(sent[2].amount, 7u);
  EXPECT_EQ(client.outstanding(), 3u);
  hear(Kind::kResponse, 1, sent[2].id);  // out of order, and less credit than is used
  EXPECT_TRUE(frames().empty());
  hear(Kind::kResponse, 1, sent[0].id);
  EXPECT_TRUE(frames().empty());
  hear(Kind::kResponse, 1, sent[1].id);
  EXPECT_EQ(frames().size(), 1u);
}

TEST_F(ClientSessionTest, the_first_request_of_a_session_needs_no_credit) {
  ClientSession& client = make();
  frames();
  hear(Kind::kWelcome, 0);
  client.submit(1, "x", at(0));
  client.submit(2, "x", at(0));
  const auto sent = frames();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind, Kind::kRequest);
  EXPECT_EQ(sent[0].amount, 1u);
  hear(Kind::kResponse, 0, sent[0].id);
  EXPECT_TRUE(frames().empty());  // that there is another, the first has said
  client.lost();
  EXPECT_EQ(frames()[0].kind, Kind::kHello);  // a new session, which begins with one
}

TEST_F(ClientSessionTest, what_waits_for_too_long_is_shed_here) {
  ClientOptions options;
  options.expire = Nanos::micros(10);
  ClientSession& client = make(options);
  open_without_credit();
  client.submit(1, "x", at(0));
  client.poll(at(10));
  EXPECT_TRUE(ends(1).empty());
  client.poll(at(11));
  EXPECT_EQ(ends(1), std::vector{E::kExpired});
  EXPECT_EQ(client.queued(), 0u);
}

TEST_F(ClientSessionTest, a_full_queue_drops_its_oldest) {
  ClientOptions options;
  options.queue = 2;
  ClientSession& client = make(options);
  frames();
  for (uint64_t i = 0; i < 3; ++i) client.submit(i, "x", at(0));
  EXPECT_EQ(ends(0), std::vector{E::kOverflowed});
  EXPECT_TRUE(ends(2).empty());
}

TEST_F(ClientSessionTest, or_the_new_one_if_asked) {
  ClientOptions options;
  options.queue = 2;
  options.discard_oldest = false;
  ClientSession& client = make(options);
  frames();
  for (uint64_t i = 0; i < 3; ++i) client.submit(i, "x", at(0));
  EXPECT_EQ(ends(2), std::vector{E::kOverflowed});
  EXPECT_TRUE(ends(0).empty());
}

TEST_F(ClientSessionTest, demand_is_said_once_and_taken_back) {
  ClientOptions options;
  options.expire = Nanos::micros(10);
  ClientSession& client = make(options);
  open_without_credit();
  EXPECT_TRUE(frames(0).empty());
  client.submit(1, "x", at(0));
  client.submit(2, "x", at(0));
  auto sent = frames(0);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind, Kind::kDemand);
  EXPECT_EQ(sent[0].amount, 2u);
  EXPECT_TRUE(frames(1).empty());
  sent = frames(100);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].amount, 0u);
  EXPECT_TRUE(frames(101).empty());
}

TEST_F(ClientSessionTest, demand_is_said_though_a_request_is_unanswered) {
  ClientSession& client = make();
  client.submit(1, "long", at(0));
  ASSERT_EQ(frames().size(), 1u);
  hear(Kind::kWelcome, 1);
  EXPECT_TRUE(frames(0).empty());
  client.submit(2, "x", at(0));
  const auto sent = frames(0);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind, Kind::kDemand);
  EXPECT_EQ(sent[0].amount, 1u);
  client.submit(3, "x", at(0));
  EXPECT_TRUE(frames(0).empty()) << "an answer brings the rest";
}

TEST_F(ClientSessionTest, a_reject_says_so) {
  ClientSession& client = make();
  client.submit(1, "x", at(0));
  const auto sent = frames();
  char body[kRefusalBytes];
  encode_refusal(body, {Reason::kOverloaded, 1, 500});
  hear(Kind::kRefusal, 0, sent[0].id, {body, sizeof body});
  EXPECT_EQ(ends(1), std::vector{E::kRefused});
  EXPECT_EQ(reject_.retry_after_us, 500u);
  EXPECT_EQ(client.credit(), 0u);
}

TEST_F(ClientSessionTest, a_failed_request_changes_no_credit) {
  ClientSession& client = make();
  client.submit(1, "x", at(0));
  const auto sent = frames();
  hear(Kind::kWelcome, 5);
  hear(Kind::kError, static_cast<uint32_t>(Fault::kFailed), sent[0].id, "no");
  EXPECT_EQ(ends(1), std::vector{E::kFailed});
  EXPECT_EQ(client.credit(), 5u);
}

TEST_F(ClientSessionTest, an_error_without_id_ends_the_session_and_loses_what_was_sent) {
  ClientSession& client = make();
  client.submit(1, "x", at(0));
  client.submit(2, "y", at(0));
  frames();
  EXPECT_FALSE(hear(Kind::kError, static_cast<uint32_t>(Fault::kSessions), 0, "full"));
  client.lost();
  EXPECT_EQ(ends(1), std::vector{E::kLost});
  EXPECT_TRUE(ends(2).empty());
  const auto sent = frames();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind, Kind::kHello);
  EXPECT_EQ(sent[0].body, "y");
}

TEST_F(ClientSessionTest, what_is_not_answered_in_time_is_lost_and_a_late_answer_ignored) {
  ClientOptions options;
  options.answer_within = Nanos::micros(100);
  ClientSession& client = make(options);
  client.submit(1, "x", at(0));
  const auto sent = frames(0);
  client.poll(at(101));
  EXPECT_EQ(ends(1), std::vector{E::kLost});
  EXPECT_TRUE(hear(Kind::kResponse, 1, sent[0].id, "late"));
  EXPECT_EQ(ends(1).size(), 1u);
}

TEST_F(ClientSessionTest, over_udp_hello_and_demand_are_repeated) {
  ClientOptions options;
  options.datagrams = true;
  options.repeat = Nanos::micros(20);
  options.expire = Nanos();
  ClientSession& client = make(options);
  EXPECT_EQ(frames(0).size(), 1u);
  EXPECT_TRUE(frames(19).empty());
  EXPECT_EQ(frames(20).size(), 1u);
  hear(Kind::kToken, 0, 5);
  EXPECT_EQ(frames(20).size(), 1u);
  EXPECT_EQ(token_, 5u);
  hear(Kind::kWelcome, 0);
  client.submit(1, "x", at(30));
  auto sent = frames(30);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind, Kind::kRequest);
  hear(Kind::kResponse, 0, sent[0].id, {}, 30);
  client.submit(2, "x", at(30));
  sent = frames(30);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind, Kind::kDemand);
  EXPECT_TRUE(frames(49).empty());
  EXPECT_EQ(frames(50).size(), 1u);
}

TEST_F(ClientSessionTest, over_udp_the_first_request_goes_with_the_hello_that_has_the_token) {
  ClientOptions options;
  options.datagrams = true;
  ClientSession& client = make(options);
  client.submit(1, "x", at(0));
  auto sent = frames();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].id, 0u);
  EXPECT_EQ(token_, 0u);
  hear(Kind::kToken, 0, 77);
  sent = frames();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind, Kind::kHello);
  EXPECT_EQ(sent[0].body, "x");
  EXPECT_EQ(token_, 77u);
  hear(Kind::kToken, 0, 78);  // a late or a forged one
  hear(Kind::kWelcome, 3);
  client.submit(2, "y", at(0));
  EXPECT_EQ(frames().size(), 1u);
  EXPECT_EQ(token_, 77u);
  // Another server may be there by the next session.
  client.lost();
  EXPECT_EQ(frames().size(), 1u);
  EXPECT_EQ(token_, 0u);
}

TEST_F(ClientSessionTest, over_udp_what_does_not_fit_in_a_datagram_fails_unsent) {
  ClientOptions options;
  options.datagrams = true;
  ClientSession& client = make(options);
  frames();
  hear(Kind::kToken, 0, 5);
  client.submit(1, std::string(kMaxDatagramBodyBytes + 1, 'x'), at(0));
  EXPECT_EQ(ends(1), std::vector{E::kFailed});
  EXPECT_EQ(bodies_[1], "the request does not fit in a datagram");
  client.submit(2, std::string(kMaxDatagramBodyBytes, 'x'), at(0));
  ASSERT_EQ(frames().size(), 1u);
  EXPECT_EQ(bytes_.size(), kMaxDatagramBytes);
}

TEST_F(ClientSessionTest, answers_may_come_in_any_pieces) {
  ClientSession& client = make();
  client.submit(1, "x", at(0));
  const auto sent = frames();
  const std::string bytes =
      framed({Kind::kWelcome, 1, 2, 0, {}}) + framed({Kind::kResponse, 1, 4, sent[0].id, "abc"});
  for (const char byte : bytes) ASSERT_TRUE(client.receive({&byte, 1}, at(0)).ok());
  EXPECT_EQ(ends(1), std::vector{E::kReply});
  EXPECT_EQ(client.credit(), 4u);
}

TEST_F(ClientSessionTest, whatever_comes_every_request_ends_once) {
  Prng dice(1);
  for (int round = 0; round < 2000; ++round) {
    ends_.clear();
    ClientSession& client = make();
    int64_t us = 0;
    uint64_t tag = 0;
    for (int step = 0; step < 30; ++step) {
      us += dice.below(4000);
      if (dice.below(2) == 0) client.submit(tag++, "x", at(us));
      frames(us);
      std::string bytes = framed({static_cast<Kind>(0x81 + dice.below(6)), 1, dice.below(5),
                                  dice.below(3), dice.below(2) == 0 ? "12345678" : ""});
      if (dice.below(4) == 0) {
        bytes[dice.below(static_cast<uint32_t>(bytes.size()))] = static_cast<char>(dice.next());
      }
      if (!client.receive(bytes, at(us)).ok()) client.lost();
      client.poll(at(us));
    }
    client.abandon();
    for (uint64_t i = 0; i < tag; ++i) ASSERT_EQ(ends(i).size(), 1u) << i;
  }
}

TEST_F(ClientSessionTest, a_request_with_a_rank_goes_behind_the_hello) {
  ClientSession& client = make();
  client.submit(1, "ping", at(0), Rank{2, 5});
  auto sent = frames();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].kind, Kind::kHello);
  EXPECT_EQ(sent[0].id, 0u);
  hear(Kind::kWelcome, 0);
  sent = frames();
  ASSERT_EQ(sent.size(), 1u) << "the first needs no credit";
  EXPECT_EQ(sent[0].kind, Kind::kRankedRequest);
  EXPECT_EQ(sent[0].body, std::string("\x02\x05\0\0ping", 8));
}

TEST_F(ClientSessionTest, what_the_server_refuses_by_its_level_is_not_sent) {
  ClientSession& client = make();
  open_without_credit();
  hear(Kind::kCredit, 10);
  hear(Kind::kLevel, 128 + 64, 0, {}, 1000);
  EXPECT_EQ(client.levels(), 192u);
  client.submit(1, "a", at(1000), Rank{1, 64});
  client.submit(2, "b", at(1000), Rank{1, 63});
  client.submit(3, "c", at(1000));
  EXPECT_EQ(frames(1000).size(), 2u);
  EXPECT_EQ(ends(1), std::vector{Ending::kWithheld});
  EXPECT_TRUE(ends(2).empty());
  EXPECT_TRUE(ends(3).empty());
  // One each second asks whether it is still so.
  client.submit(4, "d", at(1'000'999), Rank{7, 0});
  EXPECT_EQ(frames(1'000'999).size(), 0u);
  client.submit(5, "e", at(1'001'000), Rank{7, 0});
  client.submit(6, "f", at(1'001'000), Rank{7, 0});
  EXPECT_EQ(frames(1'001'000).size(), 1u);
  EXPECT_TRUE(ends(5).empty());
  EXPECT_EQ(ends(6), std::vector{Ending::kWithheld});
  hear(Kind::kLevel, overload::kLevels, 0, {}, 1'001'500);
  client.submit(7, "g", at(1'001'500), Rank{7, 127});
  EXPECT_EQ(frames(1'001'500).size(), 1u);
}

TEST_F(ClientSessionTest, a_new_session_knows_of_no_level) {
  ClientSession& client = make();
  open_without_credit();
  hear(Kind::kLevel, 1);
  client.lost();
  EXPECT_EQ(client.levels(), overload::kLevels);
}

TEST_F(ClientSessionTest, a_probe_needs_an_open_session_and_brings_the_load) {
  ClientSession& client = make();
  EXPECT_FALSE(client.probe(bytes_));
  open_without_credit();
  std::string probe;
  ASSERT_TRUE(client.probe(probe));
  const Decoded found = decode(probe, Side::kClient);
  ASSERT_EQ(found.message.kind, Kind::kProbe);
  char body[kLoadBytes];
  encode_load(body, {250});
  EXPECT_TRUE(hear(Kind::kLoad, 7, found.message.id, {body, sizeof body}));
  EXPECT_EQ(load_.in_flight, 7u);
  EXPECT_EQ(load_.latency, Nanos::micros(250));
  EXPECT_EQ(client.credit(), 0u) << "the amount of a load is no credit";
}

}  // namespace
}  // namespace rubato::rpc
