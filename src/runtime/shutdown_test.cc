// SPDX-License-Identifier: Apache-2.0
#include "runtime/shutdown.h"

#include <gtest/gtest.h>

#include <functional>

namespace rubato {
namespace {

constexpr Nanos kLimit = Nanos::millis(10);

class CountingDatapath final : public Datapath {
 public:
  uint32_t queues() const override { return 0; }
  DatapathQueue& queue(WorkerId) override { check_failed(__FILE__, __LINE__, "no queues"); }
  void drain() override {
    ++drains;
    if (while_draining) while_draining();
  }
  uint64_t in_flight() const override { return requests; }
  DatapathStats stats() const override { return {}; }
  void for_each_flow(const std::function<void(const FlowInfo&)>&) override {}
  bool close_flow(uint64_t) override { return false; }

  std::function<void()> while_draining;
  int drains = 0;
  uint64_t requests = 0;
};

TEST(Shutdown, stops_when_nothing_is_in_flight) {
  CountingDatapath datapath;
  datapath.requests = 1;
  Shutdown shutdown(datapath, kLimit);
  EXPECT_TRUE(shutdown.running());
  EXPECT_LT(shutdown.drained_for(now()), Nanos());
  shutdown.ask_to_stop();
  EXPECT_EQ(shutdown.state(), RunState::kDraining);
  EXPECT_FALSE(shutdown.stop_if_drained(now()));
  datapath.requests = 0;
  EXPECT_TRUE(shutdown.stop_if_drained(now()));
  EXPECT_EQ(shutdown.state(), RunState::kStopped);
  EXPECT_EQ(datapath.drains, 1);
  EXPECT_FALSE(shutdown.failed());
}

TEST(Shutdown, does_not_stop_while_another_worker_has_yet_to_close_the_datapath) {
  CountingDatapath datapath;
  Shutdown shutdown(datapath, kLimit);
  datapath.while_draining = [&] { EXPECT_FALSE(shutdown.stop_if_drained(now())); };
  shutdown.ask_to_stop();
  EXPECT_TRUE(shutdown.stop_if_drained(now()));
  EXPECT_EQ(datapath.drains, 1);
}

TEST(Shutdown, fails_when_a_request_does_not_end_at_the_limit) {
  CountingDatapath datapath;
  datapath.requests = 1;
  Shutdown shutdown(datapath, kLimit);
  shutdown.ask_to_stop();
  EXPECT_FALSE(shutdown.stop_if_drained(now() + kLimit));
  EXPECT_TRUE(shutdown.stop_if_drained(now() + Nanos::seconds(1)));
  EXPECT_TRUE(shutdown.failed());
}

}  // namespace
}  // namespace rubato
