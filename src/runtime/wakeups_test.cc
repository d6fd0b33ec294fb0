// SPDX-License-Identifier: Apache-2.0
#include "runtime/wakeups.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <span>
#include <utility>

#include "policy/cfcfs.h"
#include "policy/darc.h"

namespace rubato {
namespace {

constexpr uint32_t kWorkers = 3;

class QuietQueue final : public DatapathQueue {
 public:
  uint32_t poll(std::span<Request*>) override { return 0; }
  bool pending() const override { return false; }
  Request* finish(Request&) override { return nullptr; }
  void flush(Request&) override {}
  void wait(Nanos) override {}
  void wake() override { ++woken; }

  int woken = 0;
};

class QuietDatapath final : public Datapath {
 public:
  uint32_t queues() const override { return kWorkers; }
  DatapathQueue& queue(WorkerId worker) override { return of[worker.value]; }
  void drain() override {}
  uint64_t in_flight() const override { return 0; }
  DatapathStats stats() const override { return {}; }
  void for_each_flow(const std::function<void(const FlowInfo&)>&) override {}
  bool close_flow(uint64_t) override { return false; }

  std::array<QuietQueue, kWorkers> of;
};

// What may_serve asks of a host.
template <Policy P>
struct PlanOnly {
  uint32_t workers() const { return kWorkers; }
  const typename P::Plan& plan() const { return published; }
  typename P::Plan published{};
};

// All three workers sleep, and one request after another comes at worker 1: who is woken, in turn.
template <Policy P>
std::array<uint32_t, kWorkers> woken_in_turn(QueueRef q) {
  const P policy{typename P::Config{}};
  QuietDatapath datapath;
  QueueSet<P> queues(policy, kWorkers, 16, 16);
  GroupQueues groups(kWorkers, kFirstOwnGroup, 16, 16);
  Sleepers<> sleepers(kWorkers);
  CoreControl cores(nullptr, kWorkers, kWorkers, nullptr);
  Wakeups<P> wakeups(policy, kWorkers, datapath, queues, groups, sleepers, cores);
  for (uint32_t w = 0; w < kWorkers; ++w) sleepers.falls_asleep({w});
  PlanOnly<P> host;
  std::array<uint32_t, kWorkers> order{};
  for (uint32_t& next : order) {
    wakeups.wake_for(q, WorkerId{1}, host);
    next = kWorkers;
    for (uint32_t w = 0; w < kWorkers; ++w) {
      if (std::exchange(datapath.of[w].woken, 0) != 0) next = w;
    }
  }
  return order;
}

using Order = std::array<uint32_t, kWorkers>;

TEST(Wakeups, call_the_next_sleeper_after_the_worker_that_queued) {
  EXPECT_EQ(woken_in_turn<Cfcfs>({0, 0}), (Order{2, 0, 1}));
}

// kLowestIdleFirst
TEST(Wakeups, call_the_lowest_sleeper_where_the_policy_says_so) {
  EXPECT_EQ(woken_in_turn<Darc>({1, 0}), (Order{0, 1, 2}));
}

}  // namespace
}  // namespace rubato
