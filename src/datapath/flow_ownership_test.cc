// SPDX-License-Identifier: Apache-2.0
#include "datapath/flow_ownership.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "datapath/drain_flag.h"
#include "mechanism/queue/testing/model.h"

namespace rubato {
namespace {

TEST(FlowOwnership, first_event_takes_and_later_ones_mark) {
  FlowOwnership<> ownership;
  EXPECT_TRUE(ownership.event());
  EXPECT_EQ(ownership.state(), FlowState::kScheduled);
  EXPECT_FALSE(ownership.event());
  EXPECT_FALSE(ownership.event());
  EXPECT_EQ(ownership.state(), FlowState::kScheduledReadable);
  EXPECT_FALSE(ownership.release());
  EXPECT_TRUE(ownership.release());
  EXPECT_EQ(ownership.state(), FlowState::kIdle);
}

TEST(FlowOwnership, claim_takes_idle_flows_only) {
  FlowOwnership<> ownership;
  EXPECT_TRUE(ownership.claim());
  EXPECT_FALSE(ownership.claim());
  EXPECT_TRUE(ownership.release());
}

TEST(FlowOwnership, events_of_a_closing_flow_are_ignored) {
  FlowOwnership<> ownership;
  EXPECT_TRUE(ownership.event());
  EXPECT_FALSE(ownership.event());
  ownership.close();
  EXPECT_FALSE(ownership.event());
  EXPECT_FALSE(ownership.claim());
  EXPECT_EQ(ownership.state(), FlowState::kClosing);
}

TEST(FlowOwnership, only_the_moves_of_the_diagram_exist) {
  constexpr FlowState kAll[] = {FlowState::kIdle, FlowState::kScheduled,
                                FlowState::kScheduledReadable, FlowState::kClosing};
  int moves = 0;
  for (const FlowState from : kAll) {
    for (const FlowState to : kAll) moves += flow_may_move(from, to) ? 1 : 0;
  }
  EXPECT_EQ(moves, 7);
  EXPECT_FALSE(flow_may_move(FlowState::kIdle, FlowState::kClosing));
  EXPECT_FALSE(flow_may_move(FlowState::kClosing, FlowState::kIdle));
}

// A socket of counted bytes, one poller and one or more owners, each a list of atomic steps. Every
// interleaving is run to its end; at the end no byte may be left in an idle flow.
class Interleaving {
 public:
  // Explores all orders of `sends` events against an owner that starts with the flow in hand.
  int explore(int sends) {
    sends_ = sends;
    walk({});
    return runs_;
  }

 private:
  enum class Step : uint8_t { kReceive, kRelease, kNone };

  struct World {
    FlowOwnership<> ownership;
    int in_socket = 0;
    int received = 0;
    int sent = 0;
    bool harvested = false;  // the poller has taken the event and not yet told the gate
    Step owner = Step::kReceive;
  };

  bool poller_can(const World& w) const { return w.harvested || w.sent < sends_; }

  void poller_step(World& w) const {
    if (!w.harvested) {
      ++w.sent;
      ++w.in_socket;
      w.harvested = true;
      return;
    }
    w.harvested = false;
    if (w.ownership.event()) w.owner = Step::kReceive;
  }

  static void owner_step(World& w) {
    if (w.owner == Step::kReceive) {
      w.received += std::exchange(w.in_socket, 0);
      w.owner = Step::kRelease;
    } else {
      w.owner = w.ownership.release() ? Step::kNone : Step::kReceive;
    }
  }

  // Replays `path` (true = poller), then branches.
  void walk(std::vector<bool> path) {
    World w;
    ASSERT_TRUE(w.ownership.event());
    for (const bool poller : path) poller ? poller_step(w) : owner_step(w);
    const bool poller = poller_can(w);
    const bool owner = w.owner != Step::kNone;
    if (!poller && !owner) {
      ++runs_;
      EXPECT_EQ(w.received, sends_);
      EXPECT_EQ(w.ownership.state(), FlowState::kIdle);
      return;
    }
    for (const bool who : {true, false}) {
      if (who ? !poller : !owner) continue;
      path.push_back(who);
      walk(path);
      path.pop_back();
    }
  }

  int sends_ = 0;
  int runs_ = 0;
};

TEST(FlowOwnership, no_interleaving_loses_an_event) {
  EXPECT_GT(Interleaving().explore(4), 1000);
}

// Two pollers with an event each, under the model checker: who gets the flow receives. Forbidden
// outcomes: bytes that no owner has seen, or two owners at once (the plain cell).
template <model::Weaken kWeaken>
model::Report two_pollers_with_events() {
  struct Scene {
    bool bring(size_t poller) {
      bytes[poller].store(1, std::memory_order_relaxed);
      return ownership.event();
    }
    void own() {
      do {
        received = bytes[0].load(std::memory_order_relaxed) +
                   bytes[1].load(std::memory_order_relaxed);
      } while (!ownership.release());
    }
    FlowOwnership<model::Sync<kWeaken>> ownership;
    std::array<model::Atomic<int>, 2> bytes;
    model::Plain<int> received;
  };
  return model::explore(model::within(3, 3), [](model::Execution& run) {
    auto scene = std::make_shared<Scene>();
    for (size_t poller = 0; poller < 2; ++poller) {
      run.thread([scene, poller] {
        if (scene->bring(poller)) scene->own();
      });
    }
    run.finally([scene, &run] {
      run.expect(scene->received == 2, "bytes that no owner has seen");
      run.expect(scene->ownership.state() == FlowState::kIdle, "an owner that is gone");
    });
  });
}

TEST(FlowOwnership, no_stale_value_loses_an_event_or_makes_two_owners) {
  const model::Report report = two_pollers_with_events<model::Weaken{}>();
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 20u);
}

TEST(FlowOwnership, an_event_would_be_lost_without_acquire_or_release) {
  constexpr model::Weaken kExchanges{.exchanges = true};
  constexpr model::Weaken kLoads{.loads = true};
  EXPECT_NE(two_pollers_with_events<kExchanges>().failure, "");
  EXPECT_NE(two_pollers_with_events<kLoads>().failure, "");
}

// A flow that an event or a sweep takes beside a thread that drains. Forbidden outcome: the thread
// finds nothing in flight, and the owner takes a request all the same.
template <model::Weaken kWeaken>
model::Report taking_a_request_beside_draining(bool another_counts) {
  using Sync = model::Sync<kWeaken>;
  struct Scene {
    FlowOwnership<Sync> ownership;
    DrainFlag<Sync> draining;
    model::Atomic<int> drained;  // the flag is set
    bool took = false;
    bool none_in_flight = false;
  };
  return model::explore(model::within(3, 3), [another_counts](model::Execution& run) {
    auto scene = std::make_shared<Scene>();
    const auto count = [scene] {
      if (scene->drained.load(std::memory_order_acquire) == 0) return;
      scene->none_in_flight = scene->ownership.state() == FlowState::kIdle;
    };
    run.thread([scene] {
      if (scene->ownership.event()) scene->took = !scene->draining.is_set();
    });
    run.thread([scene, count, another_counts] {
      scene->draining.set();
      scene->drained.store(1, std::memory_order_release);
      if (!another_counts) count();
    });
    if (another_counts) run.thread(count);
    run.finally([scene, &run] {
      run.expect(!scene->took || !scene->none_in_flight, "a request after the last");
    });
  });
}

TEST(FlowOwnership, no_request_is_taken_after_none_was_in_flight) {
  for (const bool another_counts : {false, true}) {
    const model::Report report = taking_a_request_beside_draining<model::Weaken{}>(another_counts);
    EXPECT_EQ(report.failure, "");
    EXPECT_GE(report.executions, 5u);
  }
}

TEST(FlowOwnership, one_could_be_without_seq_cst) {
  constexpr model::Weaken kSeqCst{.seq_cst = true};
  EXPECT_NE(taking_a_request_beside_draining<kSeqCst>(false).failure, "");
  EXPECT_NE(taking_a_request_beside_draining<kSeqCst>(true).failure, "");
}

// Two threads hand one flow to and fro; its plain field has one owner at a time and every sent
// unit is received.
TEST(FlowOwnership, threads_pass_the_flow_without_losing_events) {
  constexpr int kEvents = 200'000;
  FlowOwnership<> ownership;
  std::atomic<int> socket{0};
  std::atomic<bool> handed{false};
  std::atomic<bool> stop{false};
  int received = 0;  // the owner's, plain on purpose
  const auto own = [&] {
    do {
      received += socket.exchange(0, std::memory_order_relaxed);
    } while (!ownership.release());
  };
  std::thread thief([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      if (handed.load(std::memory_order_acquire)) {
        handed.store(false, std::memory_order_relaxed);
        own();
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (int i = 0; i < kEvents; ++i) {
    socket.fetch_add(1, std::memory_order_relaxed);
    if (!ownership.event()) continue;
    if (i % 3 == 0) {
      own();
    } else {
      handed.store(true, std::memory_order_release);
    }
  }
  while (ownership.state() != FlowState::kIdle) std::this_thread::yield();
  stop = true;
  thief.join();
  EXPECT_EQ(received, kEvents);
}

}  // namespace
}  // namespace rubato
