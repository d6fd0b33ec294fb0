// SPDX-License-Identifier: Apache-2.0
#include "datapath/loopback.h"

#include <gtest/gtest.h>

#include <array>

#include "datapath/testing/line_protocol.h"

namespace rubato {
namespace {

using testing::LineProtocol;

Instant manual_now;  // the clock of tests that move time by hand
Instant read_manual() { return manual_now; }

LoopbackOptions manual_options() {
  manual_now = Instant(1'000'000);
  LoopbackOptions options;
  options.now = &read_manual;
  return options;
}

// Polls once and answers what came; the payloads in order.
std::vector<std::string> serve(LoopbackDatapath& loopback, uint32_t queue = 0) {
  std::array<Request*, 32> burst{};
  std::vector<std::string> seen;
  const uint32_t n = loopback.queue(WorkerId{queue}).poll(burst);
  for (uint32_t i = 0; i < n; ++i) {
    for (Request* r = burst[i]; r != nullptr;) {
      seen.emplace_back(r->payload);
      r->reply->append(r->payload);
      r = r->datapath->finish(*r);
    }
  }
  return seen;
}

TEST(Loopback, delayed_submit_arrives_when_it_is_due) {
  LineProtocol protocol;
  LoopbackOptions options = manual_options();
  options.delay_min = options.delay_max = Nanos::micros(10);
  LoopbackDatapath loopback(options, protocol);
  const uint64_t flow = loopback.connect();
  ASSERT_TRUE(loopback.submit(flow, "a\n"));
  manual_now = manual_now + Nanos(9'999);
  EXPECT_TRUE(serve(loopback).empty());
  EXPECT_FALSE(loopback.queue(WorkerId{0}).pending());
  manual_now = manual_now + Nanos(1);
  EXPECT_TRUE(loopback.queue(WorkerId{0}).pending());
  EXPECT_EQ(serve(loopback), std::vector<std::string>{"a\n"});
  EXPECT_EQ(loopback.faults().delayed, 1u);
}

TEST(Loopback, request_is_dated_by_its_arrival) {
  LineProtocol protocol;
  LoopbackDatapath loopback(manual_options(), protocol);
  const uint64_t flow = loopback.connect();
  ASSERT_TRUE(loopback.submit(flow, "a\n"));
  const Instant sent = manual_now;
  manual_now = manual_now + Nanos::millis(13);
  std::array<Request*, 1> burst{};
  ASSERT_EQ(loopback.queue(WorkerId{0}).poll(burst), 1u);
  EXPECT_EQ(burst[0]->arrived, sent);
}

TEST(Loopback, losses_follow_the_seed_and_are_counted) {
  const auto run = [](uint64_t seed) {
    LineProtocol protocol;
    LoopbackOptions options = manual_options();
    options.loss = 0.3;
    options.seed = seed;
    LoopbackDatapath loopback(options, protocol);
    const uint64_t flow = loopback.connect();
    for (int i = 0; i < 1000; ++i) {
      EXPECT_TRUE(loopback.submit(flow, std::to_string(i) + "\n"));
    }
    std::vector<std::string> seen = serve(loopback);
    EXPECT_EQ(seen.size() + loopback.faults().lost, 1000u);
    EXPECT_NEAR(static_cast<double>(loopback.faults().lost), 300, 80);
    return seen;
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

// Several flows submit numbered lines; whether each arrived in order, and whether all did as one.
struct Orders {
  bool within_flows = true;
  bool across_flows = true;
};

Orders reordered_run(bool within) {
  LineProtocol protocol;
  LoopbackOptions options = manual_options();
  options.reorder = 0.3;
  options.reorder_within_flow = within;
  LoopbackDatapath loopback(options, protocol);
  const std::array<uint64_t, 4> flows{loopback.connect(), loopback.connect(), loopback.connect(),
                                      loopback.connect()};
  Orders orders;
  std::array<int, 4> last{-1, -1, -1, -1};
  int last_any = -1;
  size_t served = 0;
  const auto take = [&] {
    for (const std::string& line : serve(loopback)) {
      const int number = std::stoi(line);
      int& own = last[static_cast<size_t>(number % 4)];
      orders.within_flows &= number > own;
      orders.across_flows &= number > last_any;
      own = last_any = number;
      ++served;
    }
  };
  for (int i = 0; i < 400; ++i) {
    EXPECT_TRUE(loopback.submit(flows[static_cast<size_t>(i % 4)], std::to_string(i) + "\n"));
    manual_now = manual_now + Nanos::micros(20);
    take();
  }
  manual_now = manual_now + Nanos::seconds(1);
  take();
  EXPECT_EQ(served, 400u);
  EXPECT_GT(loopback.faults().reordered, 0u);
  return orders;
}

TEST(Loopback, reordering_keeps_flows_in_order_unless_asked) {
  const Orders kept = reordered_run(false);
  EXPECT_TRUE(kept.within_flows);
  EXPECT_FALSE(kept.across_flows);
  EXPECT_FALSE(reordered_run(true).within_flows);
}

TEST(Loopback, delayed_submits_of_a_moved_flow_keep_their_order) {
  LineProtocol protocol;
  LoopbackOptions options = manual_options();
  options.queues = 2;
  options.delay_max = Nanos::micros(50);
  LoopbackDatapath loopback(options, protocol);
  const uint64_t flow = loopback.connect(WorkerId{0});
  std::string sent;
  serve(loopback);
  for (int i = 0; i < 100; ++i) {
    const std::string line = std::to_string(i) + "\n";
    ASSERT_TRUE(loopback.submit(flow, line));
    sent += line;
    EXPECT_TRUE(loopback.steer(flow, WorkerId{i % 2 == 0 ? 1u : 0u}));
    manual_now = manual_now + Nanos::micros(5);
    for (const uint32_t q : {1u, 0u, 1u}) serve(loopback, q);
  }
  manual_now = manual_now + Nanos::millis(1);
  for (const uint32_t q : {0u, 1u}) serve(loopback, q);
  EXPECT_EQ(loopback.receive(flow, sent.size()), sent);
  EXPECT_EQ(loopback.stats().flows_steered, 50u);
}

TEST(Loopback, end_of_stream_comes_after_delayed_bytes) {
  LineProtocol protocol;
  LoopbackOptions options = manual_options();
  options.delay_max = Nanos::micros(50);
  LoopbackDatapath loopback(options, protocol);
  const uint64_t flow = loopback.connect();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(loopback.submit(flow, "a\n"));
  loopback.finish_sending(flow);
  manual_now = manual_now + Nanos::millis(1);
  EXPECT_EQ(serve(loopback).size(), 20u);
  EXPECT_EQ(loopback.receive(flow, 1000).size(), 40u);
  EXPECT_TRUE(loopback.closed(flow));
}

TEST(Loopback, full_wire_refuses_and_counts) {
  LineProtocol protocol;
  LoopbackOptions options;
  options.wire_bytes = 4;
  LoopbackDatapath loopback(options, protocol);
  const uint64_t flow = loopback.connect();
  EXPECT_TRUE(loopback.submit(flow, "a\nb\n"));
  EXPECT_FALSE(loopback.submit(flow, "c\n"));
  EXPECT_EQ(loopback.faults().refused, 1u);
  EXPECT_EQ(serve(loopback).size(), 2u);
  EXPECT_TRUE(loopback.submit(flow, "c\n"));
}

TEST(Loopback, replies_may_go_to_a_callback) {
  LineProtocol protocol;
  LoopbackOptions options;
  std::string got;
  uint64_t from = 0;
  options.on_reply = [&](uint64_t flow, std::string_view bytes) {
    from = flow;
    got += bytes;
  };
  LoopbackDatapath loopback(options, protocol);
  const uint64_t flow = loopback.connect();
  ASSERT_TRUE(loopback.submit(flow, "a\nb\n"));
  serve(loopback);
  EXPECT_EQ(got, "a\nb\n");
  EXPECT_EQ(from, flow);
}

TEST(Loopback, forgotten_and_unknown_flows_take_nothing) {
  LineProtocol protocol;
  LoopbackDatapath loopback({}, protocol);
  const uint64_t flow = loopback.connect();
  loopback.forget(flow);
  EXPECT_FALSE(loopback.submit(flow, "a\n"));
  EXPECT_FALSE(loopback.submit(999, "a\n"));
  EXPECT_TRUE(loopback.closed(flow));
  std::string none;
  EXPECT_FALSE(loopback.take(flow, none));
}

}  // namespace
}  // namespace rubato
