// SPDX-License-Identifier: Apache-2.0
#include "runtime/shutdown.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "mechanism/queue/testing/model.h"
#include "runtime/hold.h"
#include "runtime/worker_stats.h"

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

TEST(Shutdown, a_hold_ends_with_a_change_or_is_given_up) {
  CountingDatapath datapath;
  Shutdown shutdown(datapath, kLimit);
  EXPECT_EQ(shutdown.held(), 0u);
  ASSERT_TRUE(shutdown.hold());
  EXPECT_FALSE(shutdown.hold());
  const uint32_t first = shutdown.held();
  EXPECT_NE(first, 0u);
  EXPECT_TRUE(shutdown.serving());
  EXPECT_FALSE(shutdown.give_up_hold(first, now()));
  EXPECT_TRUE(shutdown.give_up_hold(first, now() + Shutdown::kHoldLimit));
  EXPECT_TRUE(shutdown.running());
  ASSERT_TRUE(shutdown.hold());
  EXPECT_FALSE(shutdown.end_hold(first));  // what was found then says nothing now
  EXPECT_TRUE(shutdown.end_hold(shutdown.held()));
  EXPECT_TRUE(shutdown.changed());
  shutdown.wait_until_over();
  shutdown.go_on();
  EXPECT_TRUE(shutdown.running());
  EXPECT_EQ(shutdown.holds_given_up(), 1u);
}

TEST(Shutdown, an_order_to_stop_outlasts_a_change) {
  CountingDatapath datapath;
  Shutdown shutdown(datapath, kLimit);
  ASSERT_TRUE(shutdown.hold());
  ASSERT_TRUE(shutdown.end_hold(shutdown.held()));
  shutdown.ask_to_stop();
  EXPECT_TRUE(shutdown.changed());
  shutdown.go_on();
  EXPECT_EQ(shutdown.state(), RunState::kDraining);
  Shutdown held(datapath, kLimit);
  ASSERT_TRUE(held.hold());
  held.ask_to_stop();
  EXPECT_EQ(held.state(), RunState::kDraining);
}

// Under the model checker: an order to stop beside a change of the policy, whose last step is
// go_on, or beside a worker that ends a hold; a runtime that does not stop then waits for ever.
template <model::Weaken kWeaken>
struct Scene {
  RunWord<model::Sync<kWeaken>> word;
};

template <model::Weaken kWeaken>
model::Report order_beside_a_change() {
  return model::explore(model::within(3, 3), [](model::Execution& run) {
    auto scene = std::make_shared<Scene<kWeaken>>();
    scene->word.hold();
    scene->word.end_hold(1, RunState::kChanged);
    run.thread([scene] { scene->word.go_on(); });
    run.thread([scene] { scene->word.order_stop(1); });
    run.finally([scene, &run] {
      run.expect(scene->word.state() == RunState::kDraining, "an order to stop is lost");
    });
  });
}

template <model::Weaken kWeaken>
model::Report order_beside_a_hold() {
  return model::explore(model::within(2, 2), [](model::Execution& run) {
    auto scene = std::make_shared<Scene<kWeaken>>();
    scene->word.hold();
    run.thread([scene] { scene->word.end_hold(1, RunState::kChanged); });
    run.thread([scene] { scene->word.order_stop(1); });
    run.thread([scene, &run] {
      while (scene->word.state() == RunState::kHeld) run.wait();
      if (scene->word.stop()) return;  // the order came first
      scene->word.wait_until_over();
      scene->word.go_on();
      while (!scene->word.stop()) run.wait();
    });
  });
}

TEST(Shutdown, no_order_to_stop_is_lost_beside_a_change) {
  const model::Report report = order_beside_a_change<model::Weaken{}>();
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 5u);
  const model::Report held = order_beside_a_hold<model::Weaken{}>();
  EXPECT_EQ(held.failure, "");
  EXPECT_GE(held.executions, 5u);
}

TEST(Shutdown, one_would_be_without_seq_cst) {
  EXPECT_NE(order_beside_a_change<model::Weaken{.seq_cst = true}>().failure, "");
}

// Nothing is left only once every worker sees this hold and has given back all that any took in.
TEST(Hold, is_empty_when_all_see_it_and_nothing_is_left) {
  std::array<WorkerStats, 2> workers;
  const std::vector<const WorkerStats*> stats{&workers[0], &workers[1]};
  Hold hold(2, stats);
  workers[0].taken_in += 2;
  hold.sees({0}, 1);
  hold.sees({1}, 1);
  EXPECT_FALSE(hold.is_empty(1));
  workers[1].given_back += 2;
  EXPECT_TRUE(hold.is_empty(1));
  EXPECT_FALSE(hold.is_empty(2));
  hold.sees({0}, 2);
  EXPECT_FALSE(hold.is_empty(2));
}

}  // namespace
}  // namespace rubato
