// SPDX-License-Identifier: Apache-2.0
//
// The contract of every stream datapath, run on each of them.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "datapath/testing/datapath_fixture.h"

namespace rubato::testing {
namespace {

class DatapathContract : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<DatapathFixture> fixture(const FixtureOptions& options = {}) {
    return make_fixture(GetParam(), options);
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, DatapathContract, ::testing::Values("tcp", "loopback"),
                         [](const auto& kind) { return kind.param; });

std::string numbers(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += std::to_string(i) + "\n";
  return text;
}

TEST_P(DatapathContract, replies_leave_in_request_order) {
  auto b = fixture();
  auto client = b->connect();
  const std::string text = numbers(5000);
  ASSERT_TRUE(client->send(text));
  EXPECT_TRUE(b->echo(5000));
  EXPECT_EQ(client->receive(text.size()), text);
  EXPECT_EQ(b->datapath().stats().requests, 5000u);
}

TEST_P(DatapathContract, one_request_per_flow_is_in_flight) {
  auto b = fixture();
  auto first = b->connect();
  auto second = b->connect();
  ASSERT_TRUE(first->send("a\nb\nc\n"));
  ASSERT_TRUE(second->send("x\n"));
  std::vector<Request*> taken;
  ASSERT_TRUE(b->poll_until([&] { return taken.size() >= 2; }, &taken));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(b->poll().empty());
  EXPECT_NE(taken[0]->flow, taken[1]->flow);
  EXPECT_EQ(b->datapath().in_flight(), 2u);
  for (Request* request : taken) {
    while (request != nullptr) request = DatapathFixture::finish(request, request->payload);
  }
  EXPECT_EQ(b->datapath().in_flight(), 0u);
}

TEST_P(DatapathContract, pipelined_replies_are_sent_together) {
  auto b = fixture();
  auto client = b->connect();
  ASSERT_TRUE(client->send("a\nb\nc\n"));
  Request* request = b->next();
  ASSERT_NE(request, nullptr);
  request = DatapathFixture::finish(request, "A");
  ASSERT_NE(request, nullptr);
  request = DatapathFixture::finish(request, "B");
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->payload, "c\n");
  EXPECT_EQ(b->datapath().stats().output_bytes, 0u);
  EXPECT_EQ(DatapathFixture::finish(request, "C"), nullptr);
  EXPECT_EQ(b->datapath().stats().output_bytes, 3u);
  EXPECT_EQ(client->receive(3), "ABC");
}

TEST_P(DatapathContract, reply_of_a_long_request_does_not_wait_for_those_behind_it) {
  auto b = fixture();
  auto client = b->connect();
  ASSERT_TRUE(client->send("a\nb\nc\n"));
  Request* request = b->next();
  ASSERT_NE(request, nullptr);
  request = DatapathFixture::finish(request, "A");
  ASSERT_NE(request, nullptr);
  request->job_class = JobClass::kLong;
  request = DatapathFixture::finish(request, "B");
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->payload, "c\n");
  EXPECT_EQ(client->receive(2), "AB");
  EXPECT_EQ(DatapathFixture::finish(request, "C"), nullptr);
  EXPECT_EQ(client->receive(1), "C");
}

TEST_P(DatapathContract, flush_sends_the_replies_before_and_nothing_of_the_unfinished_one) {
  auto b = fixture();
  auto client = b->connect();
  ASSERT_TRUE(client->send("a\nb\n"));
  Request* request = b->next();
  ASSERT_NE(request, nullptr);
  request = DatapathFixture::finish(request, "before");
  ASSERT_NE(request, nullptr);
  const uint64_t mark = request->reply->mark();
  request->reply->append("part");
  request->datapath->flush(*request);
  EXPECT_EQ(client->receive(6), "before");
  EXPECT_TRUE(request->reply->take_back(mark));
  EXPECT_EQ(DatapathFixture::finish(request, "rest"), nullptr);
  EXPECT_EQ(client->receive(4), "rest");
}

TEST_P(DatapathContract, long_pipeline_is_sent_before_it_runs_dry) {
  auto b = fixture();
  auto client = b->connect();
  ASSERT_TRUE(client->send("a\nb\nc\n"));
  Request* request = b->next();
  ASSERT_NE(request, nullptr);
  const std::string big(StreamFlow::kCoalesceBytes, 'x');
  request = DatapathFixture::finish(request, big);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->payload, "b\n");
  EXPECT_EQ(client->receive(big.size()), big);
  while (request != nullptr) request = DatapathFixture::finish(request, "y");
  EXPECT_EQ(client->receive(2), "yy");
}

TEST_P(DatapathContract, request_fields_start_fresh) {
  auto b = fixture();
  auto client = b->connect();
  const Instant before = datapath_now();
  ASSERT_TRUE(client->send("a\nb\n"));
  Request* request = b->next();
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->type, 7u);
  EXPECT_EQ(request->flow, b->protocol.last_flow);
  EXPECT_GE(request->arrived, before);
  EXPECT_LE(request->arrived, datapath_now());
  request->preemptions = 3;
  request->job_class = JobClass::kLong;
  request->fiber = request;
  request->promoted_after = Nanos::millis(1);
  request->put_back = before;
  request->has_locals = true;
  request->refusal = Refusal::kShare;
  request->retry_after = Nanos::millis(1);
  request = DatapathFixture::finish(request, "x");
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->preemptions, 0u);
  EXPECT_EQ(request->job_class, JobClass::kShort);
  EXPECT_EQ(request->fiber, nullptr);
  EXPECT_EQ(request->promoted_after, Nanos());
  EXPECT_EQ(request->put_back, Instant());
  EXPECT_FALSE(request->has_locals);
  EXPECT_EQ(request->refusal, Refusal::kFull);
  EXPECT_EQ(request->retry_after, Nanos());
  EXPECT_EQ(DatapathFixture::finish(request, "y"), nullptr);
}

TEST_P(DatapathContract, input_during_a_request_is_seen_when_another_thread_finishes_it) {
  auto b = fixture();
  auto client = b->connect();
  ASSERT_TRUE(client->send("a\n"));
  Request* request = b->next();
  ASSERT_NE(request, nullptr);
  ASSERT_TRUE(client->send("b\n"));
  // The event of the second line is taken while the first is in flight.
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(b->poll().empty());
  Request* second = nullptr;
  std::thread([&] { second = DatapathFixture::finish(request, "A"); }).join();
  if (second == nullptr) second = b->next();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->payload, "b\n");
  std::thread([&] { EXPECT_EQ(DatapathFixture::finish(second, "B"), nullptr); }).join();
  EXPECT_EQ(client->receive(2), "AB");
}

TEST_P(DatapathContract, unread_replies_hold_back_their_flow_only) {
  auto b = fixture();
  auto deaf = b->connect();
  auto other = b->connect();
  constexpr size_t kReply = size_t{24} << 20;
  ASSERT_TRUE(deaf->send("a\nb\n"));
  Request* request = b->next();
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(DatapathFixture::finish(request, std::string(kReply, 'A')), nullptr);
  EXPECT_GT(b->datapath().in_flight(), 0u);
  ASSERT_TRUE(other->send("1\n2\n"));
  EXPECT_TRUE(b->echo(2));
  EXPECT_EQ(other->receive(4), "1\n2\n");
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(b->poll().empty());

  std::string got;
  std::thread reader([&] { got = deaf->receive(kReply + 1); });
  Request* next = b->next();
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->payload, "b\n");
  EXPECT_EQ(DatapathFixture::finish(next, "B"), nullptr);
  EXPECT_TRUE(b->poll_until([&] { return b->datapath().in_flight() == 0; }));
  reader.join();
  EXPECT_EQ(got.size(), kReply + 1);
  EXPECT_EQ(got.back(), 'B');
}

TEST_P(DatapathContract, half_closed_client_gets_its_replies_then_the_end) {
  auto b = fixture();
  auto client = b->connect();
  ASSERT_TRUE(client->send("a\nb\n"));
  client->half_close();
  EXPECT_TRUE(b->echo(2));
  EXPECT_TRUE(b->all_closed());
  EXPECT_EQ(client->receive(100), "a\nb\n");
}

TEST_P(DatapathContract, half_close_during_a_request_is_noticed) {
  auto b = fixture();
  auto client = b->connect();
  ASSERT_TRUE(client->send("a\n"));
  Request* request = b->next();
  ASSERT_NE(request, nullptr);
  ASSERT_TRUE(client->send("b\nincomplete"));
  client->half_close();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(b->poll().empty());
  Request* second = DatapathFixture::finish(request, "A");
  if (second == nullptr) second = b->next();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(DatapathFixture::finish(second, "B"), nullptr);
  EXPECT_TRUE(b->all_closed());
  EXPECT_EQ(client->receive(100), "AB");
}

TEST_P(DatapathContract, reset_during_a_request_ends_quietly) {
  auto b = fixture();
  auto client = b->connect();
  ASSERT_TRUE(client->send("a\nb\n"));
  Request* request = b->next();
  ASSERT_NE(request, nullptr);
  client->reset();
  for (int i = 0; i < 10; ++i) b->poll();
  while (request != nullptr) request = DatapathFixture::finish(request, "A");
  EXPECT_TRUE(b->all_closed());
  EXPECT_EQ(b->datapath().stats().flows_open, 0u);
}

TEST_P(DatapathContract, close_after_takes_effect_when_the_reply_has_left) {
  auto b = fixture();
  auto client = b->connect();
  ASSERT_TRUE(client->send("a\nb\n"));
  Request* request = b->next();
  ASSERT_NE(request, nullptr);
  request->close_after = true;
  const std::string reply(size_t{24} << 20, 'x');
  EXPECT_EQ(DatapathFixture::finish(request, reply), nullptr);
  std::string got;
  std::thread reader([&] { got = client->receive(reply.size() + 1); });
  EXPECT_TRUE(b->all_closed());
  reader.join();
  EXPECT_EQ(got.size(), reply.size());
}

TEST_P(DatapathContract, large_request_arrives_in_turns) {
  auto b = fixture();
  auto client = b->connect();
  const std::string body(size_t{5} << 20, 'z');
  std::thread writer([&] {
    EXPECT_TRUE(client->send("#" + std::to_string(body.size()) + "\n" + body + "next\n"));
  });
  Request* request = b->next();
  writer.join();
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->payload.size(), body.size() + 9);
  Request* after = DatapathFixture::finish(request, "1");
  if (after == nullptr) after = b->next();
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(after->payload, "next\n");
  EXPECT_EQ(DatapathFixture::finish(after, "2"), nullptr);
  EXPECT_EQ(client->receive(2), "12");
}

TEST_P(DatapathContract, slow_sender_is_not_framed_for_every_byte) {
  auto b = fixture();
  auto client = b->connect();
  ASSERT_TRUE(client->send("#200\n"));
  b->poll_until([&] { return b->datapath().stats().input_bytes == 5; });
  for (size_t i = 0; i < 199; ++i) {
    ASSERT_TRUE(client->send("x"));
    b->poll_until([&] { return b->datapath().stats().input_bytes == i + 6; });
  }
  ASSERT_TRUE(client->send("x"));
  Request* request = b->next();
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->payload.size(), 205u);
  EXPECT_EQ(static_cast<LineSession*>(request->session)->frames, 2);
  EXPECT_EQ(DatapathFixture::finish(request, "ok"), nullptr);
}

TEST_P(DatapathContract, too_much_unframed_input_closes_the_flow) {
  FixtureOptions options;
  options.limits.input_bytes = 100'000;
  auto b = fixture(options);
  auto client = b->connect();
  client->send(std::string(400'000, 'x'));
  EXPECT_TRUE(b->poll_until([&] { return b->datapath().stats().flows_input_limit == 1; }));
  EXPECT_TRUE(b->all_closed());
}

// The two tests below: so much that the larger request fits, and beside it half of the smaller one.
constexpr uint64_t kShortOfMemory = 350'000;

FixtureOptions short_of_memory(MemoryAccount& account) {
  account.set_limit(kShortOfMemory);
  FixtureOptions options;
  options.limits.memory = &account;
  return options;
}

TEST_P(DatapathContract, short_of_memory_the_largest_half_sent_request_gives_way) {
  MemoryAccount account;
  auto b = fixture(short_of_memory(account));
  auto larger = b->connect();
  ASSERT_TRUE(larger->send(std::string(200'000, 'x')));
  ASSERT_TRUE(b->poll_until([&] { return b->datapath().stats().input_bytes == 200'000; }));
  auto smaller = b->connect();
  ASSERT_TRUE(smaller->send(std::string(100'000, 'y') + "\n"));
  std::vector<Request*> taken;
  const auto came = [&] {
    EXPECT_LE(account.used(), kShortOfMemory);
    return !taken.empty();
  };
  ASSERT_TRUE(b->poll_until(came, &taken));
  Request* const request = taken.front();
  EXPECT_EQ(request->payload.size(), 100'001u);
  EXPECT_EQ(DatapathFixture::finish(request, "ok"), nullptr);
  EXPECT_EQ(smaller->receive(2), "ok");
  EXPECT_TRUE(b->poll_until([&] { return b->protocol.live == 1; }));
  EXPECT_EQ(b->datapath().stats().flows_input_limit, 1u);
  EXPECT_LE(account.used(), kShortOfMemory);
}

TEST_P(DatapathContract, short_of_memory_a_request_that_is_complete_does_not_give_way) {
  MemoryAccount account;
  auto b = fixture(short_of_memory(account));
  auto larger = b->connect();
  ASSERT_TRUE(larger->send(std::string(200'000, 'x') + "\n"));
  Request* const request = b->next();
  ASSERT_NE(request, nullptr);
  auto smaller = b->connect();
  smaller->send(std::string(100'000, 'y') + "\n");
  EXPECT_TRUE(b->poll_until([&] { return b->datapath().stats().flows_input_limit == 1; }));
  EXPECT_TRUE(b->poll_until([&] { return b->protocol.live == 1; }));
  EXPECT_EQ(DatapathFixture::finish(request, "ok"), nullptr);
  EXPECT_EQ(larger->receive(2), "ok");
}

TEST_P(DatapathContract, short_of_memory_an_idle_flow_does_not_give_way) {
  MemoryAccount account;
  auto b = fixture(short_of_memory(account));
  auto idle = b->connect();
  ASSERT_TRUE(idle->send("#200000\n" + std::string(200'000, 'x')));
  Request* const request = b->next();
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(DatapathFixture::finish(request, "ok"), nullptr);
  EXPECT_EQ(idle->receive(2), "ok");
  account.note_data(kShortOfMemory / 2);
  auto asking = b->connect();
  asking->send(std::string(kShortOfMemory, 'y'));
  EXPECT_TRUE(b->poll_until([&] { return b->datapath().stats().flows_input_limit == 1; }));
  EXPECT_EQ(asking->receive(1), "");
  ASSERT_TRUE(idle->send("x\n"));
  EXPECT_TRUE(b->echo(1));
  EXPECT_EQ(idle->receive(2), "x\n");
}

TEST_P(DatapathContract, short_of_memory_a_flow_gives_way_while_it_waits_to_be_moved) {
  MemoryAccount account;
  FixtureOptions options = short_of_memory(account);
  options.queues = 2;
  auto b = fixture(options);
  b->protocol.concurrency = 2;
  auto larger = b->connect();
  ASSERT_TRUE(larger->send("x\n" + std::string(200'000, 'x')));
  std::vector<Request*> taken;
  const auto came = [&] { return b->datapath().stats().input_bytes == 200'002; };
  ASSERT_TRUE(b->poll_until(came, &taken));
  ASSERT_EQ(taken.size(), 1u);
  Request* const in_service = taken.front();
  const uint32_t at = in_service->datapath == &b->datapath().queue(WorkerId{0}) ? 0 : 1;
  ASSERT_TRUE(b->datapath().steer(b->protocol.last_flow, WorkerId{1 - at}));
  b->poll();
  auto smaller = b->connect();
  ASSERT_TRUE(smaller->send(std::string(100'000, 'y') + "\n"));
  EXPECT_TRUE(b->echo(1));
  EXPECT_EQ(DatapathFixture::finish(in_service, "late"), nullptr);
  EXPECT_TRUE(b->poll_until([&] { return b->protocol.live == 1; }));
}

TEST_P(DatapathContract, short_of_memory_one_that_gives_way_makes_room_for_several) {
  MemoryAccount account;
  auto b = fixture(short_of_memory(account));
  auto larger = b->connect();
  ASSERT_TRUE(larger->send("#250000\n" + std::string(240'000, 'x')));
  ASSERT_TRUE(b->poll_until([&] { return b->datapath().stats().input_bytes == 240'008; }));
  std::vector<std::unique_ptr<TestClient>> smaller;
  for (const size_t bytes : {120'000u, 100'000u}) {
    smaller.push_back(b->connect());
    const std::string head = "#" + std::to_string(bytes) + "\n";
    ASSERT_TRUE(smaller.back()->send(head + std::string(bytes, 'y')));
  }
  EXPECT_TRUE(b->echo(2));
  EXPECT_TRUE(b->poll_until([&] { return b->protocol.live == 2; }));
  EXPECT_EQ(b->datapath().stats().flows_input_limit, 1u);
}

TEST_P(DatapathContract, short_of_memory_an_idle_flow_keeps_no_buffer) {
  MemoryAccount account;
  auto b = fixture(short_of_memory(account));
  auto client = b->connect();
  for (const uint64_t data : {kShortOfMemory / 2, kShortOfMemory - kShortOfMemory / 8}) {
    account.note_data(data);
    ASSERT_TRUE(client->send("x\n"));
    Request* const request = b->next();
    ASSERT_NE(request, nullptr);
    EXPECT_EQ(DatapathFixture::finish(request, "ok"), nullptr);
    EXPECT_EQ(client->receive(2), "ok");
    EXPECT_EQ(account.buffers() > 0, account.has_plenty());
  }
}

TEST_P(DatapathContract, short_of_memory_a_first_buffer_is_refused_and_closes_its_flow) {
  constexpr uint64_t kFit = 3;
  MemoryAccount account;
  const FixtureOptions options = short_of_memory(account);
  account.note_data(kShortOfMemory - kFit * MemoryShare::kFirstBytes);
  auto b = fixture(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (uint64_t i = 0; i < kFit; ++i) {
    clients.push_back(b->connect());
    ASSERT_TRUE(clients.back()->send("x"));
    ASSERT_TRUE(b->poll_until([&] { return b->datapath().stats().input_bytes == i + 1; }));
  }
  EXPECT_EQ(account.used(), kShortOfMemory);
  clients.push_back(b->connect());
  clients.back()->send("x");
  EXPECT_TRUE(b->poll_until([&] { return b->datapath().stats().flows_input_limit == 1; }));
  EXPECT_TRUE(b->poll_until([&] { return b->protocol.live == kFit; }));
  EXPECT_EQ(account.used(), kShortOfMemory);
}

TEST_P(DatapathContract, too_much_output_closes_the_flow) {
  FixtureOptions options;
  options.limits.output_bytes = 100'000;
  auto b = fixture(options);
  auto client = b->connect();
  ASSERT_TRUE(client->send("a\nb\n"));
  Request* request = b->next();
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(DatapathFixture::finish(request, std::string(100'001, 'x')), nullptr);
  EXPECT_EQ(b->datapath().stats().flows_overflowed, 1u);
  EXPECT_TRUE(b->all_closed());
}

TEST_P(DatapathContract, drain_closes_idle_flows_and_finishes_those_in_flight) {
  auto b = fixture();
  auto idle = b->connect();
  auto busy = b->connect();
  ASSERT_TRUE(idle->send("x\n"));
  ASSERT_TRUE(b->echo(1));
  EXPECT_EQ(idle->receive(2), "x\n");
  ASSERT_TRUE(busy->send("a\nb\n"));
  Request* request = b->next();
  ASSERT_NE(request, nullptr);
  b->datapath().drain();
  EXPECT_TRUE(b->poll_until([&] { return b->protocol.live == 1; }));
  EXPECT_EQ(b->datapath().in_flight(), 1u);
  EXPECT_EQ(DatapathFixture::finish(request, "A"), nullptr);
  EXPECT_TRUE(b->all_closed());
  EXPECT_EQ(b->datapath().in_flight(), 0u);
  EXPECT_EQ(busy->receive(10), "A");
  EXPECT_EQ(idle->receive(1), "");
  EXPECT_FALSE(b->connect()->connected());
}

TEST_P(DatapathContract, flows_over_the_limit_are_refused_and_counted) {
  FixtureOptions options;
  options.max_flows = 2;
  auto b = fixture(options);
  auto one = b->connect();
  auto two = b->connect();
  ASSERT_TRUE(b->poll_until([&] { return b->protocol.live == 2; }));
  auto three = b->connect();
  ASSERT_TRUE(b->poll_until([&] { return b->datapath().stats().flows_refused == 1; }));
  if (three->connected()) {
    EXPECT_EQ(three->receive(100), "too many\n");
  }
  one->reset();
  ASSERT_TRUE(b->poll_until([&] { return b->protocol.live == 1; }));
  auto four = b->connect();
  ASSERT_TRUE(four->send("ok\n"));
  EXPECT_TRUE(b->echo(1));
  EXPECT_EQ(four->receive(3), "ok\n");
}

TEST_P(DatapathContract, close_flow_ends_idle_and_busy_flows) {
  auto b = fixture();
  auto idle = b->connect();
  auto busy = b->connect();
  ASSERT_TRUE(b->poll_until([&] { return b->protocol.live == 2; }));
  ASSERT_TRUE(busy->send("a\nb\n"));
  Request* request = b->next();
  ASSERT_NE(request, nullptr);
  std::vector<uint64_t> flows;
  b->datapath().for_each_flow([&](const FlowInfo& info) { flows.push_back(info.flow); });
  ASSERT_EQ(flows.size(), 2u);
  for (const uint64_t flow : flows) EXPECT_TRUE(b->datapath().close_flow(flow));
  EXPECT_FALSE(b->datapath().close_flow(12345));
  EXPECT_TRUE(b->poll_until([&] { return b->protocol.live == 1; }));
  EXPECT_EQ(DatapathFixture::finish(request, "A"), nullptr);
  EXPECT_TRUE(b->all_closed());
}

TEST_P(DatapathContract, idle_flows_time_out) {
  FixtureOptions options;
  options.idle_timeout = Nanos::millis(20);
  auto b = fixture(options);
  auto client = b->connect();
  ASSERT_TRUE(client->send("a\n"));
  ASSERT_TRUE(b->echo(1));
  EXPECT_TRUE(b->all_closed());
  EXPECT_EQ(b->datapath().stats().flows_timed_out, 1u);
}

TEST_P(DatapathContract, flows_are_described) {
  auto b = fixture();
  auto client = b->connect();
  ASSERT_TRUE(client->send("abc\n"));
  ASSERT_TRUE(b->echo(1));
  int seen = 0;
  b->datapath().for_each_flow([&](const FlowInfo& info) {
    ++seen;
    EXPECT_EQ(info.flow, b->protocol.last_flow);
    EXPECT_FALSE(info.peer.empty());
    EXPECT_EQ(info.input_bytes, 4u);
    EXPECT_EQ(info.output_bytes, 4u);
    EXPECT_EQ(info.unsent_bytes, 0u);
    EXPECT_NE(info.session, nullptr);
  });
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(b->datapath().stats().flows_open, 1u);
  EXPECT_EQ(b->datapath().stats().flows_accepted, 1u);
}

TEST_P(DatapathContract, pending_sees_what_nobody_has_polled) {
  auto b = fixture();
  auto client = b->connect();
  DatapathQueue& queue = b->datapath().queue(WorkerId{0});
  ASSERT_TRUE(b->poll_until([&] { return b->protocol.live == 1; }));
  ASSERT_TRUE(b->poll_until([&] { return !queue.pending(); }));
  ASSERT_TRUE(client->send("a\n"));
  const Instant deadline = datapath_now() + Nanos::seconds(10);
  while (!queue.pending() && datapath_now() < deadline) {
  }
  EXPECT_TRUE(queue.pending());
  EXPECT_TRUE(b->echo(1));
  EXPECT_FALSE(queue.pending());
}

TEST_P(DatapathContract, burst_is_bounded_and_the_rest_is_kept) {
  auto b = fixture();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(b->connect());
    ASSERT_TRUE(clients.back()->send("a\n"));
  }
  DatapathQueue& queue = b->datapath().queue(WorkerId{0});
  queue.wait(Nanos::seconds(1));
  std::array<Request*, 3> burst{};
  uint32_t taken = 0;
  const Instant deadline = datapath_now() + Nanos::seconds(10);
  while (taken < 10 && datapath_now() < deadline) {
    const uint32_t n = queue.poll(burst);
    ASSERT_LE(n, burst.size());
    for (uint32_t i = 0; i < n; ++i) EXPECT_EQ(DatapathFixture::finish(burst[i], "b"), nullptr);
    taken += n;
  }
  EXPECT_EQ(taken, 10u);
}

TEST_P(DatapathContract, wake_is_kept_for_the_next_wait) {
  auto b = fixture();
  DatapathQueue& queue = b->datapath().queue(WorkerId{0});
  queue.wake();
  queue.wait(Nanos::seconds(100));
  std::thread sleeper([&] { queue.wait(Nanos::seconds(100)); });
  queue.wake();
  sleeper.join();
}

TEST_P(DatapathContract, another_thread_may_poll_for_the_owner) {
  auto b = fixture();
  auto client = b->connect();
  ASSERT_TRUE(client->send("a\n"));
  Request* request = nullptr;
  std::thread([&] { request = b->next(); }).join();
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->datapath, &b->datapath().queue(WorkerId{0}));
  EXPECT_EQ(DatapathFixture::finish(request, "A"), nullptr);
  EXPECT_EQ(client->receive(1), "A");
}

TEST_P(DatapathContract, unfinished_requests_do_not_leak_at_the_end) {
  auto b = fixture();
  auto client = b->connect();
  ASSERT_TRUE(client->send("a\n"));
  EXPECT_NE(b->next(), nullptr);
}

}  // namespace
}  // namespace rubato::testing
