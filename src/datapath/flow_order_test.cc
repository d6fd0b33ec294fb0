// SPDX-License-Identifier: Apache-2.0
#include "datapath/flow_order.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "datapath/datagram_queue.h"
#include "datapath/time_source.h"

namespace rubato {
namespace {

constexpr WorkerId kOld{0};
constexpr WorkerId kNew{1};

// The mover is held up before the table is rewritten, until the old queue was emptied long after
// the move began.
class SlowTable final : public DatagramWire {
 public:
  explicit SlowTable(FlowOrder& order) : order_(order) {}

  uint32_t queues() const override { return 2; }
  WireQueue& queue(WorkerId) override { std::abort(); }
  uint16_t port() const override { return 1; }
  DatagramDrops drops() const override { return {}; }
  std::string describe() const override { return "slow table"; }
  WorkerId queue_of_group(uint32_t) const override { return kOld; }
  bool steer_group(uint32_t, WorkerId) override {
    const Instant late = datapath_now() + FlowOrder::kSettles;
    while (datapath_now() <= late) {
    }
    order_.emptied(kOld, datapath_now());
    return moves;
  }

  bool moves = true;

 private:
  FlowOrder& order_;
};

TEST(FlowOrder, a_move_settles_after_the_table_was_rewritten) {
  FlowOrder order(2);
  SlowTable wire(order);
  ASSERT_TRUE(order.move(wire, 3, kNew));
  EXPECT_EQ(order.old_queue(3, kNew), kOld);
  order.settled(3);
  order.emptied(kOld, datapath_now() + FlowOrder::kSettles);
  EXPECT_FALSE(order.old_queue(3, kNew).has_value());
}

TEST(FlowOrder, a_move_that_the_wire_refuses_leaves_nothing) {
  FlowOrder order(2);
  SlowTable wire(order);
  wire.moves = false;
  EXPECT_FALSE(order.move(wire, 3, kNew));
  EXPECT_FALSE(order.old_queue(3, kNew).has_value());
  wire.moves = true;
  EXPECT_TRUE(order.move(wire, 3, kNew));
}

// Datagrams arrive by the new queue, if it is said, while the table is rewritten.
class BusyTable final : public DatagramWire {
 public:
  explicit BusyTable(FlowOrder& order) : order_(order) {}

  uint32_t queues() const override { return 2; }
  WireQueue& queue(WorkerId) override { std::abort(); }
  uint16_t port() const override { return 1; }
  DatagramDrops drops() const override { return {}; }
  std::string describe() const override { return "busy table"; }
  WorkerId queue_of_group(uint32_t) const override { return kOld; }
  bool steer_group(uint32_t group, WorkerId to) override {
    EXPECT_FALSE(order_.move(*this, group, to));  // one at a time
    EXPECT_EQ(order_.old_queue(group, to), kOld);
    EXPECT_FALSE(order_.old_queue(group, kOld).has_value());
    return moves;
  }

  bool moves = true;

 private:
  FlowOrder& order_;
};

TEST(FlowOrder, holds_no_lock_while_the_table_is_rewritten) {
  FlowOrder order(2);
  BusyTable wire(order);
  EXPECT_TRUE(order.move(wire, 3, kNew));
  order.settled(3);
}

TEST(FlowOrder, what_waits_for_a_move_that_fails_goes_first) {
  FlowOrder order(2);
  BusyTable wire(order);
  wire.moves = false;
  EXPECT_FALSE(order.move(wire, 3, kNew));
  EXPECT_EQ(order.old_queue(3, kNew), kOld);
  order.settled(3);
  order.settled(3);
  order.emptied(kOld, datapath_now() + FlowOrder::kSettles);
  EXPECT_FALSE(order.old_queue(3, kNew).has_value());
}

DatagramRequest request_of(uint64_t flow) {
  DatagramRequest request;
  request.flow = flow;
  return request;
}

TEST(FlowOrder, flows_that_share_a_bucket_have_orders_of_their_own) {
  using Entered = FlowOrder::Entered;
  constexpr uint32_t kFlows = 5, kEach = 4;
  FlowOrder order(1);
  std::vector<DatagramRequest> requests;
  for (uint32_t i = 0; i < kFlows * kEach; ++i) {
    requests.push_back(request_of(uint64_t{i % kFlows} << 40));
  }
  for (uint32_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(order.enter(requests[i]), i < kFlows ? Entered::kFirst : Entered::kBehind);
  }
  for (const uint32_t flow : {2u, 0u, 4u, 1u, 3u}) {
    for (uint32_t i = flow; i < requests.size(); i += kFlows) {
      DatagramRequest* const next = i + kFlows < requests.size() ? &requests[i + kFlows] : nullptr;
      EXPECT_EQ(order.leave(requests[i]), next);
    }
    EXPECT_EQ(order.enter(requests[flow]), Entered::kFirst);
  }
}

TEST(FlowOrder, so_many_of_a_flow_wait_and_others_may_still_come) {
  using Entered = FlowOrder::Entered;
  FlowOrder order(1);
  std::vector<DatagramRequest> requests;
  for (uint32_t i = 0; i < FlowOrder::kMostWaiting + 2; ++i) requests.push_back(request_of(7));
  DatagramRequest other = request_of(uint64_t{7} << 40);
  EXPECT_EQ(order.enter(requests[0]), Entered::kFirst);
  for (uint32_t i = 1; i <= FlowOrder::kMostWaiting; ++i) {
    ASSERT_EQ(order.enter(requests[i]), Entered::kBehind);
  }
  EXPECT_EQ(order.enter(requests.back()), Entered::kRefused);
  EXPECT_EQ(order.enter(other), Entered::kFirst);
  EXPECT_EQ(order.leave(requests[0]), &requests[1]);
  EXPECT_EQ(order.enter(requests.back()), Entered::kBehind);
}

}  // namespace
}  // namespace rubato
