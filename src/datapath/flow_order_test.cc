// SPDX-License-Identifier: Apache-2.0
#include "datapath/flow_order.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

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

}  // namespace
}  // namespace rubato
