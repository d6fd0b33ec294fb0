// SPDX-License-Identifier: Apache-2.0
#include "datapath/stream_flow.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "datapath/flow_registry.h"
#include "datapath/testing/line_protocol.h"

namespace rubato {
namespace {

// A queue that nobody polls; counts who wants it to.
class NoQueue final : public DatapathQueue {
 public:
  uint32_t poll(std::span<Request*>) override { return 0; }
  bool pending() const override { return false; }
  Request* finish(Request& request) override { return StreamFlow::of(request).finished(request); }
  void flush(Request& request) override { StreamFlow::of(request).flush(); }
  void wait(Nanos) override {}
  void wake() override { ++wakes; }

  int wakes = 0;
};

// A peer that never stops sending short lines and reads every reply.
class EndlessFlow final : public StreamFlow {
 public:
  explicit EndlessFlow(FlowHost& host) : StreamFlow(host, 1, "endless", Instant()) {}

  void abort() override {}

 protected:
  Transfer receive(char* to, size_t room, bool, Instant&) override {
    std::fill(to, to + room, '\n');
    return {Transfer::State::kMoved, room};
  }
  Transfer transmit(std::string_view bytes) override {
    return {Transfer::State::kMoved, bytes.size()};
  }
  void hang_up() override {}
  bool rewire(FlowHost&, FlowHost&) override { return true; }
  void unwire(FlowHost&) override {}
};

TEST(StreamFlow, a_pipeline_without_end_yields_and_goes_on_when_resumed) {
  testing::LineProtocol protocol;
  NoQueue queue;
  const DrainFlag<> draining;
  FlowHost host;
  host.queue = &queue;
  host.draining = &draining;
  EndlessFlow flow(host);
  flow.attach(protocol.open({1, "endless"}));

  Request* request = nullptr;
  flow.on_event(host, {&request, 1}, Instant(1), false, false);
  for (int turn = 1; turn <= 3; ++turn) {
    size_t in_turn = 0;
    for (; request != nullptr && in_turn < 4 * StreamFlow::kTurnBytes; ++in_turn) {
      request = queue.finish(*request);
    }
    ASSERT_EQ(request, nullptr) << "turn " << turn << " does not end";
    EXPECT_EQ(queue.wakes, turn);
    ASSERT_EQ(host.yielded.take_all(), &flow);
    flow.resume({&request, 1}, Instant(1), false);
  }
}

// A peer that sends a whole pipeline of empty lines before it reads the first reply. The wire holds
// kWindow bytes of replies.
class PipelineFlow final : public StreamFlow {
 public:
  static constexpr size_t kWindow = 1000;

  PipelineFlow(FlowHost& host, size_t lines)
      : StreamFlow(host, 1, "pipeline", Instant()), left_(lines) {}

  size_t left() const { return left_; }
  size_t replied() const { return replied_; }

  void abort() override {}

 protected:
  Transfer receive(char* to, size_t room, bool, Instant&) override {
    const size_t bytes = std::min(room, left_);
    if (bytes == 0) return {};
    std::fill(to, to + bytes, '\n');
    left_ -= bytes;
    return {Transfer::State::kMoved, bytes};
  }
  Transfer transmit(std::string_view bytes) override {
    const size_t taken = left_ == 0 ? bytes.size() : std::min(bytes.size(), kWindow - replied_);
    if (taken == 0) return {};
    replied_ += taken;
    return {Transfer::State::kMoved, taken};
  }
  void hang_up() override {}
  bool rewire(FlowHost&, FlowHost&) override { return true; }
  void unwire(FlowHost&) override {}

 private:
  size_t left_;
  size_t replied_ = 0;
};

TEST(StreamFlow, a_peer_may_send_a_whole_pipeline_before_it_reads) {
  testing::LineProtocol protocol;
  NoQueue queue;
  const DrainFlag<> draining;
  FlowHost host;
  host.queue = &queue;
  host.draining = &draining;
  constexpr size_t kLines = StreamFlow::kReadAheadBytes / 8;
  PipelineFlow flow(host, kLines);
  flow.attach(protocol.open({1, "pipeline"}));

  Request* request = nullptr;
  flow.on_event(host, {&request, 1}, Instant(1), false, false);
  size_t served = 0;
  for (int turn = 0; turn < 100; ++turn) {
    for (; request != nullptr; ++served) {
      request->reply->append("\n");
      request = queue.finish(*request);
    }
    if (flow.replied() == kLines) break;
    if (host.yielded.take_all() != nullptr) {
      flow.resume({&request, 1}, Instant(1), false);
    } else {  // the peer has read
      flow.on_event(host, {&request, 1}, Instant(1), false, true);
    }
  }
  EXPECT_EQ(flow.left(), 0u);
  EXPECT_EQ(served, kLines);
  EXPECT_EQ(flow.replied(), kLines);
}

// The peer never reads: its requests are held back once enough of them wait, and in the end it is
// closed.
TEST(StreamFlow, what_is_received_ahead_of_unsent_replies_is_bounded_and_so_is_the_wait) {
  testing::LineProtocol protocol;
  NoQueue queue;
  const DrainFlag<> draining;
  FlowHost host;
  host.queue = &queue;
  host.draining = &draining;
  PipelineFlow flow(host, SIZE_MAX);
  flow.attach(protocol.open({1, "pipeline"}));

  Request* request = nullptr;
  flow.on_event(host, {&request, 1}, Instant(1), false, false);
  size_t turns = 0;
  for (; turns < 1000; ++turns) {
    while (request != nullptr) {
      request->reply->append("\n");
      request = queue.finish(*request);
    }
    if (host.yielded.take_all() == nullptr) break;
    flow.resume({&request, 1}, Instant(1), false);
  }
  EXPECT_LT(turns, 1000u);
  EXPECT_EQ(flow.state(), FlowState::kIdle);
  const size_t received = SIZE_MAX - flow.left();
  EXPECT_GE(received, StreamFlow::kReadAheadBytes);
  EXPECT_LT(received, 3 * StreamFlow::kReadAheadBytes);

  // It is not held back for ever.
  EXPECT_TRUE(flow.held_back());
  FlowRegistry registry;
  registry.add(flow);
  SweepRule rule;
  rule.shrink_after = Nanos::max();
  const auto state_after = [&](int64_t seconds) {
    registry.sweep(1, Instant() + Nanos::seconds(seconds), rule);
    return flow.state();
  };
  EXPECT_EQ(state_after(1), FlowState::kIdle);  // sees the last bytes
  EXPECT_EQ(state_after(60), FlowState::kIdle);
  EXPECT_EQ(host.input_limit.load(), 0U);
  EXPECT_EQ(state_after(61), FlowState::kClosing);
  EXPECT_EQ(host.input_limit.load(), 1U);
  registry.remove(flow);
}

// A wire that no other queue takes, as when the kernel has no memory left for it.
class FixedFlow final : public StreamFlow {
 public:
  explicit FixedFlow(FlowHost& host) : StreamFlow(host, 1, "fixed", Instant()) {}

  void abort() override {}

 protected:
  Transfer receive(char*, size_t, bool, Instant&) override { return {}; }
  Transfer transmit(std::string_view) override { return {}; }
  void hang_up() override {}
  bool rewire(FlowHost&, FlowHost&) override { return false; }
  void unwire(FlowHost&) override {}
};

TEST(StreamFlow, a_flow_whose_wire_cannot_be_moved_stays_and_is_looked_at_again) {
  testing::LineProtocol protocol;
  NoQueue here;
  NoQueue there;
  const DrainFlag<> draining;
  FlowHost owner_queue;
  owner_queue.queue = &here;
  owner_queue.draining = &draining;
  FlowHost other;
  other.queue = &there;
  FixedFlow flow(owner_queue);
  flow.attach(protocol.open({1, "fixed"}));

  ASSERT_EQ(flow.redirect(other), StreamFlow::Redirect::kOwned);
  flow.migrate();
  EXPECT_FALSE(flow.migrated());
  EXPECT_EQ(other.steered, 0u);
  EXPECT_TRUE(other.yielded.empty());
  ASSERT_EQ(owner_queue.yielded.take_all(), &flow);
  EXPECT_EQ(here.wakes, 1);
  Request* none = nullptr;
  EXPECT_EQ(flow.resume({&none, 1}, Instant(1), false), 0u);
  EXPECT_EQ(flow.state(), FlowState::kIdle);
  EXPECT_EQ(flow.redirect(other), StreamFlow::Redirect::kOwned);
}

}  // namespace
}  // namespace rubato
