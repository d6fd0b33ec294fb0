// SPDX-License-Identifier: Apache-2.0
//
// The steering of a flow to another queue, on every stream datapath.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "base/prng.h"
#include "datapath/testing/datapath_fixture.h"

namespace rubato::testing {
namespace {

// A connected flow that is idle, and the queue it was put to.
struct Met {
  std::unique_ptr<TestClient> client;
  uint64_t flow = 0;
  uint32_t owner_queue = 0;
};

class SteerContract : public ::testing::TestWithParam<std::string> {
 protected:
  void open(FixtureOptions options = {}) {
    options.queues = std::max(options.queues, 2u);
    fixture_ = make_fixture(GetParam(), options);
  }
  Datapath& datapath() { return fixture_->datapath(); }
  DatapathQueue& queue(uint32_t q) { return datapath().queue(WorkerId{q}); }
  bool steer(const Met& met, uint32_t to) { return datapath().steer(met.flow, WorkerId{to}); }

  Met meet() {
    Met met;
    met.client = fixture_->connect();
    EXPECT_TRUE(met.client->send("hello\n"));
    Request* request = fixture_->next();
    if (request == nullptr) return met;
    met.flow = request->flow;
    while (request->datapath != &queue(met.owner_queue)) ++met.owner_queue;
    EXPECT_EQ(DatapathFixture::finish(request, request->payload), nullptr);
    EXPECT_EQ(met.client->receive(6), "hello\n");
    return met;
  }
  // Where the kernel puts a connection is not ours to say.
  Met meet_at(uint32_t owner_queue) {
    for (;;) {
      Met met = meet();
      if (met.owner_queue == owner_queue || met.flow == 0) return met;
      unused_.push_back(std::move(met));
    }
  }

  // The next request of one queue, while the others are not polled; null after ten seconds.
  Request* next_at(uint32_t q) {
    std::array<Request*, 1> one{};
    const Instant deadline = datapath_now() + Nanos::seconds(10);
    while (datapath_now() < deadline) {
      if (queue(q).poll(one) > 0) return one[0];
    }
    return nullptr;
  }
  bool quiet(uint32_t q) {
    std::array<Request*, 8> burst{};
    for (int i = 0; i < 20; ++i) {
      if (queue(q).poll(burst) > 0) return false;
    }
    return true;
  }

  std::unique_ptr<DatapathFixture> fixture_;
  std::vector<Met> unused_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, SteerContract, ::testing::Values("tcp", "loopback"),
                         [](const auto& kind) { return kind.param; });

TEST_P(SteerContract, requests_come_in_by_the_queue_that_the_flow_was_steered_to) {
  open();
  Met met = meet();
  const uint32_t other = 1 - met.owner_queue;
  EXPECT_TRUE(steer(met, other));
  ASSERT_TRUE(met.client->send("a\n"));
  EXPECT_TRUE(quiet(met.owner_queue));
  Request* request = next_at(other);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->datapath, &queue(other));
  EXPECT_EQ(request->flow, met.flow);
  EXPECT_EQ(datapath().stats().flows_migrated, 1u);
  EXPECT_EQ(DatapathFixture::finish(request, "A"), nullptr);

  EXPECT_TRUE(datapath().unsteer(met.flow));
  ASSERT_TRUE(met.client->send("b\n"));
  EXPECT_TRUE(quiet(other));
  request = next_at(met.owner_queue);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(DatapathFixture::finish(request, "B"), nullptr);
  EXPECT_EQ(met.client->receive(2), "AB");
  const DatapathStats stats = datapath().stats();
  EXPECT_EQ(stats.flows_steered, 1u);
  EXPECT_EQ(stats.flows_unsteered, 1u);
  EXPECT_EQ(stats.flows_migrated, 0u);
  EXPECT_EQ(stats.flows_open, 1u);
}

TEST_P(SteerContract, nothing_to_steer_is_false) {
  open();
  const Met met = meet();
  EXPECT_FALSE(datapath().steer(12345, WorkerId{0}));
  EXPECT_FALSE(datapath().unsteer(12345));
  EXPECT_FALSE(steer(met, met.owner_queue));
  EXPECT_FALSE(datapath().unsteer(met.flow));
  EXPECT_FALSE(steer(met, 2));
  EXPECT_TRUE(steer(met, 1 - met.owner_queue));
  EXPECT_FALSE(steer(met, 1 - met.owner_queue));
  met.client->reset();
  EXPECT_TRUE(fixture_->all_closed());
  EXPECT_FALSE(steer(met, met.owner_queue));
  EXPECT_FALSE(datapath().unsteer(met.flow));
  const Met late = meet();
  datapath().drain();
  EXPECT_FALSE(steer(late, 1 - late.owner_queue));
  EXPECT_EQ(datapath().stats().flows_steered, 1u);
}

TEST_P(SteerContract, running_request_stays_and_its_pipeline_goes_along_in_order) {
  open();
  Met met = meet();
  const uint32_t other = 1 - met.owner_queue;
  ASSERT_TRUE(met.client->send("a\nb\nc\n"));
  Request* request = next_at(met.owner_queue);
  ASSERT_NE(request, nullptr);
  EXPECT_TRUE(steer(met, other));
  EXPECT_FALSE(steer(met, other));
  EXPECT_TRUE(quiet(other));
  EXPECT_EQ(request->payload, "a\n");
  EXPECT_EQ(request->datapath, &queue(met.owner_queue));
  EXPECT_EQ(datapath().stats().flows_steered, 0u);
  ASSERT_TRUE(met.client->send("d\n"));
  EXPECT_EQ(DatapathFixture::finish(request, "A"), nullptr);
  EXPECT_EQ(met.client->receive(1), "A");
  EXPECT_EQ(datapath().stats().flows_steered, 1u);
  EXPECT_TRUE(quiet(met.owner_queue));
  request = next_at(other);
  for (const char* reply : {"B", "C", "D"}) {
    if (request == nullptr) request = next_at(other);
    ASSERT_NE(request, nullptr);
    request = DatapathFixture::finish(request, reply);
  }
  EXPECT_EQ(request, nullptr);
  EXPECT_EQ(met.client->receive(3), "BCD");
}

TEST_P(SteerContract, wish_taken_back_before_the_request_ends_moves_nothing) {
  open();
  Met met = meet();
  ASSERT_TRUE(met.client->send("a\nb\n"));
  Request* request = next_at(met.owner_queue);
  ASSERT_NE(request, nullptr);
  EXPECT_TRUE(steer(met, 1 - met.owner_queue));
  EXPECT_TRUE(datapath().unsteer(met.flow));
  request = DatapathFixture::finish(request, "A");
  if (request == nullptr) request = next_at(met.owner_queue);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(DatapathFixture::finish(request, "B"), nullptr);
  EXPECT_EQ(met.client->receive(2), "AB");
  EXPECT_EQ(datapath().stats().flows_steered + datapath().stats().flows_unsteered, 0u);
}

TEST_P(SteerContract, event_that_the_old_queue_took_before_the_move_is_served_by_the_new_one) {
  open();
  Met first = meet();
  Met second = meet_at(first.owner_queue);
  ASSERT_TRUE(first.client->send("1\n"));
  ASSERT_TRUE(second.client->send("2\n"));
  queue(first.owner_queue).wait(Nanos::seconds(1));
  EXPECT_TRUE(steer(second, 1 - first.owner_queue));
  for (const char* line : {"2\n", "3\n", "4\n"}) {
    if (line[0] != '2') {
      ASSERT_TRUE(second.client->send(line));
    }
    Request* request = next_at(1 - first.owner_queue);
    ASSERT_NE(request, nullptr);
    EXPECT_EQ(DatapathFixture::finish(request, line), nullptr);
    EXPECT_EQ(second.client->receive(2), line);
  }
  // The flow is idle again, with something to receive, when the old queue comes to that event.
  ASSERT_TRUE(second.client->send("5\n"));
  Request* request = next_at(first.owner_queue);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->flow, first.flow);
  EXPECT_EQ(DatapathFixture::finish(request, "one"), nullptr);
  EXPECT_TRUE(quiet(first.owner_queue));
  request = next_at(1 - first.owner_queue);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->payload, "5\n");
  EXPECT_EQ(DatapathFixture::finish(request, "five"), nullptr);
  EXPECT_EQ(second.client->receive(4), "five");
}

TEST_P(SteerContract, closed_flow_lives_until_the_queue_it_left_has_forgotten_its_events) {
  open();
  Met first = meet();
  Met second = meet_at(first.owner_queue);
  const int live = fixture_->protocol.live;
  ASSERT_TRUE(first.client->send("1\n"));
  ASSERT_TRUE(second.client->send("2\n"));
  queue(first.owner_queue).wait(Nanos::seconds(1));
  EXPECT_TRUE(steer(second, 1 - first.owner_queue));
  EXPECT_TRUE(datapath().close_flow(second.flow));
  EXPECT_TRUE(quiet(1 - first.owner_queue));
  EXPECT_FALSE(datapath().close_flow(second.flow));
  EXPECT_EQ(fixture_->protocol.live, live);
  Request* request = next_at(first.owner_queue);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(DatapathFixture::finish(request, "one"), nullptr);
  EXPECT_TRUE(fixture_->poll_until([&] { return fixture_->protocol.live == live - 1; }));
  EXPECT_EQ(first.client->receive(3), "one");
}

TEST_P(SteerContract, unread_replies_leave_by_the_new_queue) {
  open();
  Met met = meet();
  const std::string reply(size_t{24} << 20, 'x');
  ASSERT_TRUE(met.client->send("a\nb\n"));
  Request* request = next_at(met.owner_queue);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(DatapathFixture::finish(request, reply), nullptr);
  EXPECT_GT(datapath().in_flight(), 0u);
  EXPECT_TRUE(steer(met, 1 - met.owner_queue));
  std::string got;
  std::thread reader([&] { got = met.client->receive(reply.size() + 1); });
  request = next_at(1 - met.owner_queue);
  EXPECT_NE(request, nullptr);
  if (request != nullptr) {
    EXPECT_EQ(DatapathFixture::finish(request, "B"), nullptr);
  }
  EXPECT_TRUE(fixture_->poll_until([&] { return datapath().in_flight() == 0; }));
  reader.join();
  EXPECT_EQ(got.size(), reply.size() + 1);
  EXPECT_EQ(got.back(), 'B');
}

TEST_P(SteerContract, moved_flow_is_seen_once_closed_and_freed) {
  FixtureOptions options;
  options.queues = 3;
  open(options);
  std::vector<Met> met;
  for (int i = 0; i < 4; ++i) met.push_back(meet());
  for (const Met& one : met) {
    EXPECT_TRUE(steer(one, (one.owner_queue + 1) % 3));
    EXPECT_TRUE(steer(one, (one.owner_queue + 2) % 3));
  }
  std::vector<uint64_t> seen;
  datapath().for_each_flow([&](const FlowInfo& info) { seen.push_back(info.flow); });
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<uint64_t>{met[0].flow, met[1].flow, met[2].flow, met[3].flow}));
  EXPECT_EQ(datapath().stats().flows_open, 4u);

  met[0].client->reset();
  ASSERT_TRUE(met[1].client->send("last\n"));
  met[1].client->half_close();
  EXPECT_TRUE(fixture_->echo(1));
  EXPECT_EQ(met[1].client->receive(5), "last\n");
  EXPECT_TRUE(datapath().close_flow(met[2].flow));
  ASSERT_TRUE(met[3].client->send("quit\n"));
  Request* request = fixture_->next();
  ASSERT_NE(request, nullptr);
  request->close_after = true;
  EXPECT_EQ(DatapathFixture::finish(request, "bye"), nullptr);
  EXPECT_EQ(met[3].client->receive(100), "bye");
  EXPECT_TRUE(fixture_->all_closed());
  EXPECT_EQ(met[1].client->receive(1), "");
  EXPECT_EQ(datapath().stats().flows_open, 0u);
  EXPECT_EQ(datapath().stats().flows_migrated, 0u);
  EXPECT_EQ(datapath().stats().requests, 6u);
}

TEST_P(SteerContract, idle_moved_flow_times_out) {
  FixtureOptions options;
  options.idle_timeout = Nanos::millis(20);
  open(options);
  const Met met = meet();
  EXPECT_TRUE(steer(met, 1 - met.owner_queue));
  EXPECT_TRUE(fixture_->all_closed());
  EXPECT_EQ(datapath().stats().flows_timed_out, 1u);
}

TEST_P(SteerContract, drain_closes_idle_moved_flows_and_finishes_those_in_flight) {
  open();
  Met idle = meet();
  Met busy = meet();
  Met leaving = meet();
  EXPECT_TRUE(steer(idle, 1 - idle.owner_queue));
  EXPECT_TRUE(steer(busy, 1 - busy.owner_queue));
  ASSERT_TRUE(busy.client->send("a\nb\n"));
  Request* request = next_at(1 - busy.owner_queue);
  ASSERT_NE(request, nullptr);
  ASSERT_TRUE(leaving.client->send("c\nd\n"));
  Request* last = next_at(leaving.owner_queue);
  ASSERT_NE(last, nullptr);
  EXPECT_TRUE(steer(leaving, 1 - leaving.owner_queue));
  datapath().drain();
  EXPECT_TRUE(fixture_->poll_until([&] { return fixture_->protocol.live == 2; }));
  EXPECT_EQ(datapath().in_flight(), 2u);
  EXPECT_EQ(DatapathFixture::finish(request, "A"), nullptr);
  EXPECT_EQ(DatapathFixture::finish(last, "C"), nullptr);
  EXPECT_TRUE(fixture_->all_closed());
  EXPECT_EQ(datapath().in_flight(), 0u);
  EXPECT_EQ(busy.client->receive(10), "A");
  EXPECT_EQ(leaving.client->receive(10), "C");
  EXPECT_EQ(idle.client->receive(1), "");
}

TEST_P(SteerContract, another_thread_steers_while_the_owner_sleeps) {
  open();
  Met met = meet();
  const uint32_t other = 1 - met.owner_queue;
  Request* request = nullptr;
  std::thread owner([&] {
    std::array<Request*, 1> one{};
    while (queue(other).poll(one) == 0) queue(other).wait(Nanos::seconds(10));
    request = one[0];
  });
  EXPECT_TRUE(steer(met, other));
  EXPECT_TRUE(met.client->send("a\n"));
  owner.join();
  EXPECT_EQ(DatapathFixture::finish(request, "A"), nullptr);
  EXPECT_EQ(met.client->receive(1), "A");
}

TEST_P(SteerContract, flow_sent_back_and_forth_under_traffic_loses_nothing) {
  const char* given = std::getenv("RUBATO_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 0) : 45;
  SCOPED_TRACE("RUBATO_SEED=" + std::to_string(seed));
  Prng dice(seed);
  FixtureOptions options;
  options.queues = 3;
  open(options);
  Met met = meet();
  std::string sent;
  std::vector<Request*> held;
  uint64_t steered = 0;
  const auto step = [&](bool finish) {
    for (Request* request : fixture_->poll()) held.push_back(request);
    if (held.empty() || !finish) return;
    Request* next = DatapathFixture::finish(held.back(), held.back()->payload);
    held.pop_back();
    if (next != nullptr) held.push_back(next);
  };
  for (int i = 0; i < 1000 || steered < 1000; ++i) {
    std::string lines;
    for (uint32_t n = dice.below(4); n > 0; --n) lines += std::to_string(sent.size() + n) + "\n";
    ASSERT_TRUE(met.client->send(lines));
    sent += lines;
    if (steer(met, dice.below(3))) ++steered;
    for (uint32_t n = dice.below(4); n > 0; --n) step(dice.below(3) > 0);
    ASSERT_LE(held.size(), 1u);
  }
  const uint64_t lines = static_cast<uint64_t>(std::count(sent.begin(), sent.end(), '\n'));
  const Instant deadline = datapath_now() + Nanos::seconds(10);
  while (datapath().stats().requests < lines + 1 && datapath_now() < deadline) step(true);
  EXPECT_EQ(met.client->receive(sent.size()), sent);
  const DatapathStats stats = datapath().stats();
  EXPECT_EQ(stats.requests, lines + 1);
  EXPECT_GT(stats.flows_steered, 100u);
  EXPECT_GT(stats.flows_unsteered, 100u);
}

}  // namespace
}  // namespace rubato::testing
