// SPDX-License-Identifier: Apache-2.0
//
// Flows that do not keep the order, on every stream datapath: several requests of one are in
// service at once, and whatever ends first (they, the peer, the server) nothing is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/prng.h"
#include "datapath/testing/datapath_fixture.h"

namespace rubato::testing {
namespace {

constexpr uint32_t kAtOnce = 8;

class Concurrent : public ::testing::TestWithParam<std::string> {
 protected:
  void open(uint32_t queues = 1) {
    FixtureOptions options;
    options.queues = queues;
    fixture_ = make_fixture(GetParam(), options);
    fixture_->protocol.concurrency = kAtOnce;
    client_ = fixture_->connect();
  }
  Datapath& datapath() { return fixture_->datapath(); }

  // Polls until there are so many requests; fewer after ten seconds.
  std::vector<Request*> take(size_t count) {
    std::vector<Request*> taken;
    fixture_->poll_until([&] { return taken.size() >= count; }, &taken);
    return taken;
  }
  // Sends lines and takes them.
  std::vector<Request*> taken_of(std::string_view lines) {
    EXPECT_TRUE(client_->send(lines));
    const size_t count = static_cast<size_t>(std::count(lines.begin(), lines.end(), '\n'));
    std::vector<Request*> taken = take(count);
    EXPECT_EQ(taken.size(), count);
    return taken;
  }
  // Nothing more comes.
  void expect_quiet() {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(fixture_->poll().empty());
  }
  static void answer(Request* request) {
    EXPECT_EQ(DatapathFixture::finish(request, request->payload), nullptr);
  }

  std::unique_ptr<DatapathFixture> fixture_;
  std::unique_ptr<TestClient> client_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, Concurrent, ::testing::Values("tcp", "loopback"),
                         [](const auto& kind) { return kind.param; });

TEST_P(Concurrent, a_request_overtakes_the_one_before_it) {
  open();
  const auto both = taken_of("first\nsecond\n");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(datapath().in_flight(), 2u);
  EXPECT_EQ(both[0]->payload, "first\n");
  EXPECT_EQ(both[1]->payload, "second\n");
  answer(both[1]);
  EXPECT_EQ(client_->receive(7), "second\n");
  answer(both[0]);
  EXPECT_EQ(client_->receive(6), "first\n");
  EXPECT_EQ(datapath().in_flight(), 0u);
  EXPECT_EQ(datapath().stats().requests, 2u);
}

TEST_P(Concurrent, so_many_at_once_and_then_the_flow_is_not_read) {
  open();
  std::string all;
  for (uint32_t i = 0; i < 3 * kAtOnce; ++i) all += "x\n";
  ASSERT_TRUE(client_->send(all));
  auto taken = take(kAtOnce);
  ASSERT_EQ(taken.size(), kAtOnce);
  expect_quiet();
  // Each that is finished makes room for one.
  for (uint32_t done = 0; done < 3 * kAtOnce; ++done) {
    ASSERT_FALSE(taken.empty()) << done;
    Request* const request = taken.front();
    taken.erase(taken.begin());
    if (Request* next = DatapathFixture::finish(request, "y")) taken.push_back(next);
    if (taken.empty() && done + 1 < 3 * kAtOnce) taken = take(1);
  }
  EXPECT_EQ(client_->receive(3 * kAtOnce), std::string(3 * kAtOnce, 'y'));
  expect_quiet();
}

TEST_P(Concurrent, what_a_request_holds_is_its_own_while_others_come_and_go) {
  open();
  ASSERT_TRUE(client_->send("kept\n"));
  Request* const kept = take(1).at(0);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(client_->send(std::string(1000, 'z') + "\n"));
    Request* const other = take(1).at(0);
    ASSERT_NE(other, kept);
    answer(other);
    ASSERT_EQ(client_->receive(1001).size(), 1001u);
    ASSERT_EQ(kept->payload, "kept\n");
  }
  answer(kept);
  EXPECT_EQ(client_->receive(5), "kept\n");
}

TEST_P(Concurrent, a_client_that_sends_no_more_gets_all_answers_and_then_the_end) {
  open();
  const auto taken = taken_of("a\nb\nc\n");
  client_->half_close();
  expect_quiet();
  EXPECT_EQ(fixture_->protocol.live, 1);
  for (Request* request : taken) answer(request);
  EXPECT_EQ(client_->receive(6), "a\nb\nc\n");
  EXPECT_TRUE(fixture_->all_closed());
}

TEST_P(Concurrent, a_client_that_is_gone_is_freed_when_its_requests_are_finished) {
  open();
  const auto taken = taken_of("a\nb\nc\n");
  client_->reset();
  expect_quiet();
  for (Request* request : taken) {
    EXPECT_EQ(fixture_->protocol.live, 1);
    answer(request);
  }
  EXPECT_TRUE(fixture_->all_closed());
}

TEST_P(Concurrent, a_flow_that_is_to_close_ends_when_its_requests_are_finished) {
  open();
  const auto taken = taken_of("a\nb\n");
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_TRUE(datapath().close_flow(taken[0]->flow));
  expect_quiet();
  EXPECT_EQ(fixture_->protocol.live, 1);
  answer(taken[1]);
  answer(taken[0]);
  EXPECT_TRUE(fixture_->all_closed());
}

TEST_P(Concurrent, requests_in_service_are_finished_when_the_server_drains) {
  open();
  const auto taken = taken_of("a\nb\n");
  ASSERT_EQ(taken.size(), 2u);
  datapath().drain();
  expect_quiet();
  EXPECT_EQ(datapath().in_flight(), 2u);
  answer(taken[1]);
  answer(taken[0]);
  EXPECT_EQ(client_->receive(4), "b\na\n");
  EXPECT_TRUE(fixture_->all_closed());
  EXPECT_EQ(datapath().in_flight(), 0u);
}

TEST_P(Concurrent, a_steered_flow_moves_when_its_requests_are_finished) {
  open(2);
  const auto taken = taken_of("a\nb\n");
  ASSERT_EQ(taken.size(), 2u);
  const uint64_t flow = taken[0]->flow;
  const bool at_first = taken[0]->datapath == &datapath().queue(WorkerId{0});
  ASSERT_TRUE(datapath().steer(flow, WorkerId{at_first ? 1u : 0u}));
  ASSERT_TRUE(client_->send("c\n"));
  expect_quiet();
  EXPECT_EQ(datapath().stats().flows_migrated, 0u);
  answer(taken[0]);
  expect_quiet();
  answer(taken[1]);
  EXPECT_EQ(client_->receive(4), "a\nb\n");
  Request* const moved = take(1).at(0);
  EXPECT_EQ(moved->payload, "c\n");
  EXPECT_NE(moved->datapath, taken[0]->datapath);
  EXPECT_EQ(datapath().stats().flows_migrated, 1u);
  answer(moved);
  EXPECT_EQ(client_->receive(2), "c\n");
}

// Workers finish requests of the same flows at the same time, in any order; clients come and go.
TEST_P(Concurrent, threads_finish_requests_of_the_same_flows) {
  open(2);
  constexpr uint32_t kClients = 3;
  constexpr uint32_t kRounds = 300;
  std::atomic<bool> stop{false};
  const auto work = [&](uint32_t q) {
    Prng dice(q + 1);
    std::array<Request*, 16> burst{};
    std::vector<Request*> held;
    while (!stop || !held.empty()) {
      const uint32_t n = datapath().queue(WorkerId{q}).poll(burst);
      held.insert(held.end(), burst.begin(), burst.begin() + n);
      if (held.empty()) std::this_thread::yield();
      while (!held.empty() && (held.size() > 8 || dice.below(3) > 0)) {
        std::swap(held[dice.below(static_cast<uint32_t>(held.size()))], held.back());
        Request* const request = held.back();
        held.pop_back();
        Request* const next = DatapathFixture::finish(request, request->payload);
        if (next != nullptr) held.push_back(next);
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t q = 0; q < 2; ++q) threads.emplace_back(work, q);
  std::vector<std::thread> clients;
  std::atomic<uint32_t> answered{0};
  for (uint32_t c = 0; c < kClients; ++c) {
    auto peer = fixture_->connect();
    clients.emplace_back([&, peer = std::move(peer)] {
      for (uint32_t i = 0; i < kRounds; ++i) {
        if (!peer->send("one\ntwo\ntri\n")) return;
        answered += peer->receive(12).size() == 12 ? 3 : 0;
      }
      if (!peer->send("last\nlast\n")) return;
      peer->reset();
    });
  }
  for (std::thread& client : clients) client.join();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, kClients * kRounds * 3);
  client_.reset();
  EXPECT_TRUE(fixture_->all_closed());
}

}  // namespace
}  // namespace rubato::testing
