// SPDX-License-Identifier: Apache-2.0
//
// The contract of every datagram wire (datapath/datagram.h), as tests that each library with a wire
// instantiates on a bed of its own: INSTANTIATE_TEST_SUITE_P(Wires, DatagramContract, ...). Each
// runs a DatagramDatapath with an echo; one thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/prng.h"
#include "datapath/datagram_datapath.h"
#include "datapath/testing/datagram_bed.h"
#include "datapath/testing/one_cpu.h"
#include "datapath/time_source.h"
#include "mechanism/cpu/this_worker.h"

namespace rubato::testing {

// Each datagram of a reply begins with its number, their number and the request's first byte.
class NumberedReplies final : public DatagramRules {
 public:
  static constexpr size_t kMost = 10'000;
  bool serves(const DatagramPeer&) const override { return serves_; }
  size_t header_bytes() const override { return 3; }
  void put_header(std::string_view request, uint32_t number, uint32_t count,
                  char* to) const override {
    to[0] = static_cast<char>(number);
    to[1] = static_cast<char>(count);
    to[2] = request[0];
  }
  size_t most_reply_bytes() const override { return kMost; }
  MemoryAccount* memory() const override { return &account_; }

  bool serves_ = true;
  mutable MemoryAccount account_;
};

using MakeBed = std::function<std::unique_ptr<DatagramBed>()>;
struct NamedBed {
  std::string name;
  MakeBed make;
};
inline std::ostream& operator<<(std::ostream& out, const NamedBed& bed) { return out << bed.name; }

class DatagramContract : public ::testing::TestWithParam<NamedBed> {
 protected:
  // False: the wire is not permitted here.
  bool open(uint32_t queues = 1, const DatagramRules& rules = no_rules()) {
    bed_ = GetParam().make();
    std::string reason;
    std::unique_ptr<DatagramWire> wire = bed_->open(queues, reason);
    if (wire == nullptr) {
      reason_ = reason;
      return false;
    }
    datapath_ = DatagramDatapath::open(std::move(wire), protocol_, rules).value();
    return true;
  }
  static const DatagramRules& no_rules() {
    static const DatagramRules rules;
    return rules;
  }
  void TearDown() override {
    set_no_worker();
    if (datapath_ != nullptr) {
      EXPECT_EQ(datapath_->in_flight(), 0u);
    }
  }

  DatapathQueue& queue(uint32_t worker = 0) { return datapath_->queue(WorkerId{worker}); }
  // Polls until `count` requests have come, by whatever queue; fewer after ten seconds.
  std::vector<Request*> take(size_t count) {
    std::vector<Request*> all;
    const Instant deadline = datapath_now() + Nanos::seconds(10);
    while (all.size() < count && datapath_now() < deadline) {
      for (uint32_t q = 0; q < datapath_->queues(); ++q) {
        std::array<Request*, 8> burst{};
        const uint32_t n = queue(q).poll(burst);
        all.insert(all.end(), burst.begin(), burst.begin() + n);
      }
    }
    RUBATO_CHECK(all.size() == count);  // the test cannot go on
    return all;
  }
  // Polls each queue once; nothing wants to run.
  void poll_all() {
    std::array<Request*, 8> burst{};
    for (uint32_t q = 0; q < datapath_->queues(); ++q) EXPECT_EQ(queue(q).poll(burst), 0u);
  }
  // Polls until so many are in flight, of which no more want to run.
  void wait_for_in_flight(uint64_t count) {
    const Instant deadline = datapath_now() + Nanos::seconds(10);
    while (datapath_->in_flight() < count && datapath_now() < deadline) poll_all();
    ASSERT_EQ(datapath_->in_flight(), count);
  }
  static void finish(Request* request, std::string_view reply) {
    request->reply->append(reply);
    EXPECT_EQ(request->datapath->finish(*request), nullptr);
  }
  std::string hear(DatagramClient& client) {
    for (int tries = 0; tries < 100; ++tries) {
      const std::string bytes = client.receive();
      if (!bytes.empty()) return bytes;
    }
    return {};
  }

  std::unique_ptr<DatagramBed> bed_;
  EchoDatagrams protocol_;
  NumberedReplies numbered_;
  std::unique_ptr<DatagramDatapath> datapath_;
  std::string reason_;
};

TEST_P(DatagramContract, a_request_is_answered_in_the_frame_that_it_came_in) {
  if (!open()) GTEST_SKIP() << reason_;
  auto client = bed_->connect();
  client->send("ping");
  Request* const request = take(1)[0];
  EXPECT_EQ(request->payload, "ping");
  const char* const before = request->reply->reserve(1);
  request->reply->append("pong");
  EXPECT_EQ(request->reply->unsent().data(), before);
  EXPECT_EQ(request->payload, "ping");  // the two do not overlap
  request->datapath->finish(*request);
  EXPECT_EQ(hear(*client), "pong");
  EXPECT_EQ(datapath_->stats().requests, 1u);
  EXPECT_EQ(datapath_->stats().output_bytes, 4u);
}

TEST_P(DatagramContract, a_reply_leaves_with_the_push_of_the_worker_that_ran_the_request) {
  if (!open(2)) GTEST_SKIP() << reason_;
  auto client = bed_->connect();
  for (uint32_t ran_by : {0u, 1u}) {
    client->send("a");
    client->send("b");
    const std::vector<Request*> two = take(2);
    set_this_worker(ran_by);
    for (Request* request : two) finish(request, request->payload);
    queue(1 - ran_by).push();
    if (datapath_->wire().unsent() == 0) GTEST_SKIP() << "each reply leaves at once";
    EXPECT_EQ(client->receive(), "");
    EXPECT_EQ(datapath_->in_flight(), 2u);
    queue(ran_by).push();
    EXPECT_EQ(hear(*client).size() + hear(*client).size(), 2u);
    EXPECT_EQ(datapath_->in_flight(), 0u);
    set_no_worker();
  }
}

TEST_P(DatagramContract, requests_of_a_client_are_independent) {
  if (!open()) GTEST_SKIP() << reason_;
  auto client = bed_->connect();
  client->send("first");
  client->send("second");
  const std::vector<Request*> two = take(2);
  for (Request* request : {two[1], two[0]}) {
    const std::string payload(request->payload);
    finish(request, payload);
    EXPECT_EQ(hear(*client), payload);
  }
}

TEST_P(DatagramContract, what_is_no_request_is_dropped_and_counted) {
  if (!open()) GTEST_SKIP() << reason_;
  auto client = bed_->connect();
  client->send("!");
  client->send("?");
  client->send(std::string(1400, '!'));
  client->send("good");
  finish(take(1)[0], "done");
  EXPECT_EQ(hear(*client), "answered");
  EXPECT_EQ(hear(*client), "done");
  EXPECT_EQ(datapath_->drops().no_request, 2u);
}

TEST_P(DatagramContract, the_longest_datagrams_pass_and_longer_replies_are_refused) {
  if (!open()) GTEST_SKIP() << reason_;
  auto client = bed_->connect();
  const std::string longest(bed_->longest(), 'x');
  client->send(longest);
  finish(take(1)[0], longest);
  EXPECT_EQ(hear(*client), longest);
  client->send("more");
  finish(take(1)[0], longest + "x");
  EXPECT_EQ(hear(*client), "refused");
}

TEST_P(DatagramContract, a_reply_that_does_not_fit_nor_its_refusal_is_counted) {
  if (!open()) GTEST_SKIP() << reason_;
  auto client = bed_->connect();
  client->send("#");
  finish(take(1)[0], std::string(bed_->longest() + 1, 'x'));
  EXPECT_EQ(datapath_->drops().too_long, 1u);
  EXPECT_EQ(datapath_->in_flight(), 0u);
  EXPECT_EQ(client->receive(), "");
}

TEST_P(DatagramContract, a_long_reply_leaves_in_datagrams_with_numbers) {
  NumberedReplies& rules = numbered_;
  if (!open(1, rules)) GTEST_SKIP() << reason_;
  auto client = bed_->connect();
  const size_t part = bed_->longest() - rules.header_bytes();
  for (const size_t size : {size_t{1}, part, part + 1, 5 * part, NumberedReplies::kMost}) {
    client->send("question");
    Prng dice(size);
    std::string reply(size, ' ');
    for (char& c : reply) c = static_cast<char>(dice.next());
    finish(take(1)[0], reply);
    const size_t count = (size + part - 1) / part;
    std::map<size_t, std::string> parts;
    for (size_t i = 0; i < count; ++i) {
      const std::string heard = hear(*client);
      ASSERT_GE(heard.size(), rules.header_bytes());
      EXPECT_EQ(static_cast<size_t>(heard[1]), count);
      EXPECT_EQ(heard[2], 'q');
      parts[static_cast<size_t>(heard[0])] = heard.substr(rules.header_bytes());
    }
    std::string whole;
    for (const auto& [number, text] : parts) whole += text;
    EXPECT_EQ(whole, reply);
  }
  client->send("question");
  finish(take(1)[0], std::string(NumberedReplies::kMost + 1, 'x'));
  EXPECT_EQ(hear(*client).substr(rules.header_bytes()), "refused");
  EXPECT_LE(rules.account_.used(), ReplyBuffer::kFirstCapacity);  // one request keeps as much
}

TEST_P(DatagramContract, whom_the_rules_do_not_serve_gets_no_answer) {
  NumberedReplies& rules = numbered_;
  if (!open(1, rules)) GTEST_SKIP() << reason_;
  auto client = bed_->connect();
  rules.serves_ = false;
  client->send("question");
  std::array<Request*, 8> burst{};
  const Instant deadline = datapath_now() + Nanos::seconds(10);
  while (datapath_->drops().not_served == 0 && datapath_now() < deadline) {
    EXPECT_EQ(queue().poll(burst), 0u);
  }
  EXPECT_EQ(datapath_->drops().not_served, 1u);
  EXPECT_EQ(client->receive(), "");
}

// A network that loses, doubles and reorders what the clients send. RUBATO_DATAGRAMS is how many.
TEST_P(DatagramContract, every_datagram_of_a_bad_network_is_accounted_for) {
  constexpr uint32_t kUnderway = 16;  // no more at once, so that no buffer is ever full
  if (!open(2)) GTEST_SKIP() << reason_;
  const char* const wanted = std::getenv("RUBATO_DATAGRAMS");
  const auto count = static_cast<uint32_t>(wanted != nullptr ? std::atoi(wanted) : 2000);
  std::vector<std::unique_ptr<DatagramClient>> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(bed_->connect());
  std::vector<uint8_t> due(count);
  std::vector<uint8_t> heard(count);
  std::vector<uint32_t> underway;
  std::vector<uint32_t> held;
  uint64_t sent = 0;
  Prng dice(7);
  const auto pass_on = [&](uint32_t number) {
    clients[number % clients.size()]->send(std::to_string(number));
    underway.push_back(number);
    ++due[number];
    ++sent;
  };
  const auto serve = [&] {
    for (Request* request : take(underway.size())) {
      set_this_worker(dice.below(2));
      if (dice.below(64) == 0) datapath_->steer(request->flow, WorkerId{dice.below(2)});
      finish(request, request->payload);
    }
    for (uint32_t i : {0u, 1u}) queue(i).push();
    set_no_worker();
    for (const uint32_t number : underway) {
      ++heard[static_cast<size_t>(std::stoul(hear(*clients[number % clients.size()])))];
    }
    underway.clear();
  };
  for (uint32_t number = 0; number < count; ++number) {
    const double fate = dice.uniform();
    if (fate < 0.1) continue;
    fate < 0.3 ? held.push_back(number) : pass_on(number);
    if (fate > 0.95) pass_on(number);
    if (!held.empty() && dice.below(4) == 0) {
      pass_on(held.back());
      held.pop_back();
    }
    if (underway.size() >= kUnderway) serve();
  }
  for (const uint32_t number : held) {
    pass_on(number);
    if (underway.size() >= kUnderway) serve();
  }
  serve();
  EXPECT_EQ(heard, due);
  EXPECT_EQ(datapath_->stats().requests, sent);
  const DatagramDrops drops = datapath_->wire().drops();
  EXPECT_EQ(drops.ring_full + drops.no_frame + drops.malformed + drops.unsent, 0u);
  EXPECT_EQ(datapath_->drops().no_request, 0u);
}

TEST_P(DatagramContract, frames_do_not_leak) {
  if (!open()) GTEST_SKIP() << reason_;
  std::vector<std::unique_ptr<DatagramClient>> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(bed_->connect());
  constexpr uint32_t kRounds = 4200;  // with one frame each, more than there are frames
  for (uint32_t round = 0; round < kRounds; ++round) {
    for (auto& client : clients) {
      client->send(std::to_string(round));
      client->send("!");
    }
    for (Request* request : take(clients.size())) finish(request, request->payload);
    for (auto& client : clients) ASSERT_EQ(hear(*client), std::to_string(round));
  }
  EXPECT_EQ(datapath_->stats().requests, kRounds * clients.size());
  EXPECT_EQ(datapath_->wire().drops().no_frame, 0u);
  EXPECT_EQ(datapath_->wire().drops().unsent, 0u);
}

TEST_P(DatagramContract, every_queue_transmits_at_once) {
  constexpr uint32_t kQueues = 4;
  constexpr uint32_t kEach = 16;
  if (!open(kQueues)) GTEST_SKIP() << reason_;
  std::vector<std::unique_ptr<DatagramClient>> clients;
  for (uint32_t i = 0; i < 8; ++i) clients.push_back(bed_->connect());
  for (uint32_t round = 0; round < 50; ++round) {
    for (auto& client : clients) {
      for (uint32_t i = 0; i < kEach; ++i) client->send(std::to_string(i));
    }
    uint32_t next = 0;
    for (Request* request : take(clients.size() * kEach)) {
      set_this_worker(next++ % kQueues);
      finish(request, request->payload);
    }
    for (uint32_t i = 0; i < kQueues; ++i) queue(i).push();
    set_no_worker();
    for (auto& client : clients) {
      std::map<std::string, int> heard;
      for (uint32_t i = 0; i < kEach; ++i) ++heard[hear(*client)];
      ASSERT_EQ(heard.size(), kEach);
      ASSERT_EQ(heard.count(""), 0u);
    }
  }
}

TEST_P(DatagramContract, a_group_moves_to_another_queue_and_nothing_is_lost) {
  if (!open(2)) GTEST_SKIP() << reason_;
  auto client = bed_->connect();
  client->send("where");
  Request* request = take(1)[0];
  const uint64_t flow = request->flow;
  const bool second = request->datapath == &queue(1);
  finish(request, "here");
  hear(*client);
  if (!datapath_->steer(flow, WorkerId{second ? 0u : 1u})) GTEST_SKIP() << "no steering";
  uint64_t moves = 1;
  for (int i = 0; i < 200; ++i) {
    client->send(std::to_string(2 * i));
    if (i % 10 == 0 && datapath_->steer(flow, WorkerId{static_cast<uint32_t>(i / 10 % 2)})) ++moves;
    client->send(std::to_string(2 * i + 1));
    std::vector<std::string> asked;
    for (Request* each : take(2)) {
      asked.emplace_back(each->payload);
      finish(each, each->payload);
    }
    std::vector<std::string> heard{hear(*client), hear(*client)};
    std::sort(asked.begin(), asked.end());
    std::sort(heard.begin(), heard.end());
    ASSERT_EQ(heard, asked);
  }
  EXPECT_EQ(datapath_->stats().flows_steered + datapath_->stats().flows_unsteered, moves);
  datapath_->steer(flow, WorkerId{1});
  client->send("there");
  request = take(1)[0];
  EXPECT_EQ(request->datapath, &queue(1));
  EXPECT_EQ(request->flow, flow);
  finish(request, "yes");
  EXPECT_EQ(hear(*client), "yes");
}

TEST_P(DatagramContract, requests_of_a_flow_that_keeps_its_order_run_one_by_one) {
  const FlowsInOrder rules;
  if (!open(2, rules)) GTEST_SKIP() << reason_;
  if (!bed_->keeps_order()) GTEST_SKIP() << "a network without order";
  const OneCpu sends_in_order;
  auto client = bed_->connect();
  for (const char* text : {"a", "b", "?", "c"}) client->send(text);
  Request* request = take(1)[0];
  set_this_worker(0);  // replies of one worker keep their order on every wire
  wait_for_in_flight(4);
  for (const char* text : {"a", "b", "c"}) {
    std::array<Request*, 8> burst{};
    for (uint32_t q = 0; q < 2; ++q) EXPECT_EQ(queue(q).poll(burst), 0u);
    ASSERT_NE(request, nullptr);
    EXPECT_EQ(request->payload, text);
    request->reply->append(text);
    request = request->datapath->finish(*request);
    EXPECT_EQ(hear(*client), text);
    if (text[0] == 'b') {
      EXPECT_EQ(hear(*client), "answered");
    }
  }
  EXPECT_EQ(request, nullptr);
}

// The new queue is polled first, with a datagram in each.
TEST_P(DatagramContract, what_the_old_queue_has_comes_before_what_the_new_one_gets) {
  const FlowsInOrder rules;
  if (!open(2, rules)) GTEST_SKIP() << reason_;
  if (!bed_->keeps_order()) GTEST_SKIP() << "a network without order";
  const OneCpu sends_in_order;
  auto client = bed_->connect();
  client->send("where");
  Request* request = take(1)[0];
  const uint64_t flow = request->flow;
  const uint32_t old = request->datapath == &queue(1) ? 1 : 0;
  finish(request, "here");
  hear(*client);
  client->send("first");
  if (!datapath_->steer(flow, WorkerId{1 - old})) GTEST_SKIP() << "no steering";
  EXPECT_FALSE(datapath_->steer(flow, WorkerId{old}));  // it has just moved
  client->send("second");
  std::array<Request*, 8> burst{};
  const Instant deadline = datapath_now() + Nanos::seconds(10);
  while (queue(1 - old).poll(burst) == 0) ASSERT_LT(datapath_now(), deadline);
  EXPECT_EQ(burst[0]->payload, "first");
  set_this_worker(0);
  burst[0]->reply->append("1");
  request = burst[0]->datapath->finish(*burst[0]);
  if (request == nullptr) request = take(1)[0];  // it was still on its way
  EXPECT_EQ(request->payload, "second");
  finish(request, "2");
  EXPECT_EQ(hear(*client), "1");
  EXPECT_EQ(hear(*client), "2");
}

TEST_P(DatagramContract, a_flow_that_keeps_its_order_has_so_many_that_wait) {
  const FlowsInOrder rules;
  if (!open(2, rules)) GTEST_SKIP() << reason_;
  if (!bed_->keeps_order()) GTEST_SKIP() << "a network without order";
  constexpr uint32_t kOneTooMany = FlowOrder::kMostWaiting + 1;
  const OneCpu sends_in_order;
  auto client = bed_->connect();
  client->send("0");
  Request* request = take(1)[0];
  for (uint32_t i = 1; i < kOneTooMany; ++i) {
    client->send(std::to_string(i));
    wait_for_in_flight(i + 1);
  }
  set_this_worker(0);
  for (int i = 0; i < 2; ++i) {
    client->send("too many");
    const Instant deadline = datapath_now() + Nanos::seconds(10);
    while (datapath_->drops().flow_full <= static_cast<uint64_t>(i)) {
      poll_all();
      ASSERT_LT(datapath_now(), deadline);
    }
    for (uint32_t q = 0; q < 2; ++q) queue(q).push();
    EXPECT_EQ(hear(*client), "refused");
  }
  EXPECT_EQ(datapath_->in_flight(), kOneTooMany);
  for (uint32_t i = 0; i < kOneTooMany; ++i) {
    ASSERT_NE(request, nullptr);
    EXPECT_EQ(request->payload, std::to_string(i));
    request->reply->append(request->payload);
    request = request->datapath->finish(*request);
    ASSERT_EQ(hear(*client), std::to_string(i));
  }
  EXPECT_EQ(request, nullptr);
  EXPECT_EQ(datapath_->drops().flow_full, 2u);
}

TEST_P(DatagramContract, replies_that_no_request_runs_for_leave_in_turns) {
  const FlowsInOrder rules;
  if (!open(2, rules)) GTEST_SKIP() << reason_;
  if (!bed_->keeps_order()) GTEST_SKIP() << "a network without order";
  constexpr uint32_t kWaiting = 80, kTurn = 32;
  const OneCpu sends_in_order;
  auto client = bed_->connect();
  client->send("first");
  Request* const request = take(1)[0];
  auto& home = *request->datapath;
  for (uint32_t i = 0; i < kWaiting; ++i) {
    client->send("?");
    wait_for_in_flight(i + 2);
  }
  set_this_worker(0);
  finish(request, "done");
  for (uint32_t left = kWaiting - kTurn;; left -= std::min(left, kTurn)) {
    EXPECT_EQ(datapath_->in_flight(), left);
    EXPECT_EQ(home.pending(), left > 0);
    if (left == 0) break;
    poll_all();
  }
  EXPECT_EQ(hear(*client), "done");
  for (uint32_t i = 0; i < kWaiting; ++i) ASSERT_EQ(hear(*client), "answered");
}

TEST_P(DatagramContract, a_drain_refuses_what_waits_for_its_turn) {
  const FlowsInOrder rules;
  if (!open(2, rules)) GTEST_SKIP() << reason_;
  auto client = bed_->connect();
  client->send("first");
  client->send("second");
  Request* const request = take(1)[0];
  std::array<Request*, 8> burst{};
  const Instant deadline = datapath_now() + Nanos::seconds(10);
  while (datapath_->in_flight() < 2 && datapath_now() < deadline) {
    for (uint32_t q = 0; q < 2; ++q) EXPECT_EQ(queue(q).poll(burst), 0u);
  }
  datapath_->drain();
  finish(request, "done");
  EXPECT_EQ(hear(*client), "done");
  EXPECT_EQ(hear(*client), "refused");
}

TEST_P(DatagramContract, an_arrival_ends_a_wait_and_so_does_a_wake) {
  if (!open()) GTEST_SKIP() << reason_;
  if (!datapath_->wire().queue(WorkerId{0}).can_sleep()) GTEST_SKIP() << "cannot sleep";
  auto client = bed_->connect();
  EXPECT_FALSE(queue().pending());
  queue().wake();
  queue().wait(Nanos::seconds(1000));
  client->send("a");
  queue().wait(Nanos::seconds(1000));
  EXPECT_TRUE(queue().pending());
  finish(take(1)[0], "b");
  EXPECT_EQ(hear(*client), "b");
}

// A wait that does not end takes a hundred seconds.
TEST_P(DatagramContract, an_arrival_at_a_queue_whose_owner_is_away_ends_the_proxys_wait) {
  if (!open(2)) GTEST_SKIP() << reason_;
  std::array<DatapathQueue*, 1> delegated{&queue(1)};
  ASSERT_TRUE(queue(1).delegate_to(&queue(0)));
  queue(1).wake();  // comes to the proxy
  queue(0).wait(Nanos::seconds(100), delegated);
  for (int i = 0; i < 8; ++i) {
    auto client = bed_->connect();
    client->send("hello");
    queue(0).wait(Nanos::seconds(100), delegated);
    finish(take(1)[0], "there");
    EXPECT_EQ(hear(*client), "there");
  }
  ASSERT_TRUE(queue(1).delegate_to(nullptr));
  queue(1).wake();
  queue(1).wait(Nanos::seconds(100));
}

TEST_P(DatagramContract, a_wait_sends_the_replies_that_are_left) {
  if (!open()) GTEST_SKIP() << reason_;
  auto client = bed_->connect();
  client->send("a");
  Request* const request = take(1)[0];
  set_this_worker(0);
  finish(request, "b");
  queue().wake();
  queue().wait(Nanos::seconds(1000));
  EXPECT_EQ(datapath_->in_flight(), 0u);
  EXPECT_EQ(hear(*client), "b");
}

TEST_P(DatagramContract, a_drain_refuses_what_comes_and_lets_the_rest_finish) {
  if (!open()) GTEST_SKIP() << reason_;
  auto client = bed_->connect();
  client->send("last");
  Request* const request = take(1)[0];
  datapath_->drain();
  client->send("too late");
  std::array<Request*, 8> burst{};
  const Instant deadline = datapath_now() + Nanos::seconds(10);
  while (datapath_->stats().requests == 0 && datapath_now() < deadline) {
    EXPECT_EQ(queue().poll(burst), 0u);
  }
  EXPECT_EQ(hear(*client), "refused");
  EXPECT_FALSE(queue().pending());
  EXPECT_EQ(datapath_->in_flight(), 1u);
  finish(request, "bye");
  EXPECT_EQ(hear(*client), "bye");
}

}  // namespace rubato::testing
