// SPDX-License-Identifier: Apache-2.0
//
// The queues under the model checker: every schedule and every stale value within the bounds, for
// two or three threads with a few operations each, on rings so small that they wrap. Checked: no
// item lost, none doubled, FIFO per producer, no data race. The last tests take orderings away and
// expect the checker to notice. (It does not see a load that takes effect after a later store: that
// consumers of a StealQueue copy before they move on rests on the argument in steal_queue.h.)
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "mechanism/fiber/sanitizer.h"
#include "mechanism/queue/free_list.h"
#include "mechanism/queue/mpmc_queue.h"
#include "mechanism/queue/ordered_queue.h"
#include "mechanism/queue/spsc_queue.h"
#include "mechanism/queue/steal_queue.h"
#include "mechanism/queue/testing/model.h"

namespace rubato {
namespace {

using model::Bounds;
using model::Report;
using model::Execution;
using model::Weaken;

// Items are producer * 100 + serial number.
using Items = std::vector<int>;

// The items that a scenario's threads put and took.
template <class Queue>
struct Log {
  explicit Log(uint32_t capacity) : queue(capacity) {}
  Queue queue;
  std::array<Items, 3> put;    // by producer, accepted ones
  std::array<Items, 3> taken;  // by consumer, in order

  void put_one(uint32_t producer, int item) {
    if (queue.put(item)) put[producer].push_back(item);
  }

  void put_some(uint32_t producer, const Items& items) {
    const uint32_t count = queue.put_batch(items);
    put[producer].insert(put[producer].end(), items.begin(), items.begin() + count);
  }

  void take_one(uint32_t consumer) {
    int item = 0;
    if (queue.take(item)) taken[consumer].push_back(item);
  }

  void take_some(uint32_t consumer, uint32_t wanted) {
    Items items(wanted);
    uint32_t count = 0;
    if constexpr (requires { queue.steal(items); }) {
      count = queue.steal(items);
    } else if constexpr (requires { queue.take_batch(items); }) {
      count = queue.take_batch(items);
    } else {
      while (count < wanted && queue.take(items[count])) ++count;
    }
    taken[consumer].insert(taken[consumer].end(), items.begin(), items.begin() + count);
  }

  void check(Execution& run) {
    Items all_put;
    Items all_taken;
    for (Items& items : put) all_put.insert(all_put.end(), items.begin(), items.end());
    Items left;
    for (int item = 0; queue.take(item);) left.push_back(item);
    for (const Items& items : taken) check_order(run, items);
    check_order(run, left);
    for (Items& items : taken) all_taken.insert(all_taken.end(), items.begin(), items.end());
    all_taken.insert(all_taken.end(), left.begin(), left.end());
    std::sort(all_put.begin(), all_put.end());
    std::sort(all_taken.begin(), all_taken.end());
    run.expect(all_put == all_taken, "items lost or doubled");
    run.expect(queue.depth() == 0, "depth of an empty queue");
  }

  static void check_order(Execution& run, const Items& items) {
    for (size_t i = 0; i < items.size(); ++i) {
      for (size_t j = i + 1; j < items.size(); ++j) {
        if (items[i] / 100 == items[j] / 100) run.expect(items[i] < items[j], "order broken");
      }
    }
  }
};

template <class Queue>
using Body = void (*)(Log<Queue>&);

// Sanitized builds look at fewer schedules: the plain build has seen them all, and there a switch
// of fibers takes a microsecond.
Bounds within(uint32_t preemptions, uint32_t stale_reads) {
  if (sanitizer::kPresent) preemptions = std::min(preemptions, 1u);
  return {preemptions, stale_reads};
}

template <class Queue>
Report explore(const Bounds& bounds, std::initializer_list<Body<Queue>> bodies,
               uint32_t capacity = 2) {
  const std::vector<Body<Queue>> list(bodies);
  return model::explore(bounds, [&list, capacity](Execution& run) {
    auto log = std::make_shared<Log<Queue>>(capacity);
    for (const Body<Queue> body : list) run.thread([log, body] { body(*log); });
    run.finally([log, &run] { log->check(run); });
  });
}

void expect_sound(const Report& report) {
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 100u);
  testing::Test::RecordProperty("executions", std::to_string(report.executions));
}

constexpr Weaken kWeakLoads{true, false, false};
constexpr Weaken kWeakStores{false, true, false};

template <Weaken kWeaken = Weaken{}>
using Spsc = SpscQueue<int, model::Sync<kWeaken>>;
template <Weaken kWeaken = Weaken{}>
using Mpmc = MpmcQueue<int, model::Sync<kWeaken>>;
template <Weaken kWeaken = Weaken{}>
using Steal = StealQueue<int, model::Sync<kWeaken>>;

// Orders items by their value; those of a producer grow.
struct ItsValue {
  uint64_t operator()(int item) const { return static_cast<uint64_t>(item); }
};
template <Weaken kWeaken = Weaken{}>
using Ordered = OrderedQueue<int, ItsValue, model::Sync<kWeaken>>;

template <class Queue>
void put_five(Log<Queue>& log) {
  log.put_one(0, 1);
  log.put_some(0, {2, 3});
  log.put_one(0, 4);
  log.put_one(0, 5);
}

template <class Queue>
void take_four(Log<Queue>& log) {
  log.take_one(0);
  log.take_some(0, 2);
  log.take_one(0);
  log.take_one(0);
}

template <uint32_t kProducer, class Queue>
void put_two(Log<Queue>& log) {
  log.put_one(kProducer, static_cast<int>(kProducer) * 100 + 1);
  log.put_one(kProducer, static_cast<int>(kProducer) * 100 + 2);
}

// Puts the last item first.
template <uint32_t kProducer, class Queue>
void put_three_down(Log<Queue>& log) {
  for (int serial : {3, 2, 1}) log.put_one(kProducer, static_cast<int>(kProducer) * 100 + serial);
}

template <uint32_t kProducer, class Queue>
void put_pair_and_one(Log<Queue>& log) {
  const int base = static_cast<int>(kProducer) * 100;
  log.put_some(kProducer, {base + 1, base + 2});
  log.put_one(kProducer, base + 3);
}

template <uint32_t kConsumer, class Queue>
void take_pair_and_one(Log<Queue>& log) {
  log.take_some(kConsumer, 2);
  log.take_one(kConsumer);
}

template <uint32_t kSelf, class Queue>
void put_and_take(Log<Queue>& log) {
  put_two<kSelf>(log);
  take_pair_and_one<kSelf>(log);
}

// The owner of a StealQueue also takes from it.
template <class Queue>
void own(Log<Queue>& log) {
  log.put_some(0, {1, 2});
  log.take_one(0);
  log.put_one(0, 3);
  log.put_one(0, 4);
  log.take_one(0);
}

TEST(Interleave, spsc_keeps_order_and_loses_nothing) {
  expect_sound(explore<Spsc<>>(within(4, 3), {put_five, take_four}));
}

TEST(Interleave, mpmc_with_two_producers_and_a_consumer) {
  expect_sound(explore<Mpmc<>>(within(2, 2),
                               {put_two<0>, put_pair_and_one<1>, take_pair_and_one<0>}));
}

TEST(Interleave, mpmc_with_a_producer_and_two_consumers) {
  expect_sound(explore<Mpmc<>>(within(2, 2),
                               {put_five, take_pair_and_one<0>, take_pair_and_one<1>}));
}

TEST(Interleave, mpmc_between_two_threads_that_both_put_and_take) {
  expect_sound(explore<Mpmc<>>(within(3, 2), {put_and_take<0>, put_and_take<1>}));
}

TEST(Interleave, steal_between_the_owner_and_a_thief) {
  expect_sound(explore<Steal<>>(within(4, 3), {own, take_pair_and_one<1>}));
}

TEST(Interleave, steal_between_the_owner_and_two_thieves) {
  expect_sound(explore<Steal<>>(within(2, 2),
                                {own, take_pair_and_one<1>, take_pair_and_one<2>}));
}

TEST(Interleave, ordered_with_two_producers_and_a_consumer) {
  expect_sound(explore<Ordered<>>(within(2, 2), {put_two<0>, put_two<1>, take_pair_and_one<0>}));
}

TEST(Interleave, ordered_with_a_producer_and_two_consumers) {
  expect_sound(explore<Ordered<>>(within(2, 2), {put_two<0>, take_pair_and_one<0>,
                                                 take_pair_and_one<1>}));
}

// The items that one consumer takes after all puts are in order, and the hints are exact then.
TEST(Interleave, ordered_gives_the_smallest_that_was_left) {
  expect_sound(model::explore(within(3, 2), [](Execution& run) {
    auto log = std::make_shared<Log<Ordered<>>>(8);
    run.thread([log] { put_three_down<1>(*log); });
    run.thread([log] { put_three_down<0>(*log); });
    run.finally([log, &run] {
      run.expect(log->queue.first_key() == 1, "another first key");
      log->take_some(0, 6);
      run.expect(log->taken[0] == Items({1, 2, 3, 101, 102, 103}), "not in order");
      run.expect(log->queue.first_key() == Ordered<>::kNoKey, "a first key of nothing");
    });
  }));
}

template <Weaken kWeaken = Weaken{}>
using KeyedMpmc = MpmcQueue<int, model::Sync<kWeaken>, ItsValue>;

// Beside a producer and a consumer: the key that is shown is of an item that was put, and not of
// one that this thread has seen leave.
template <Weaken kWeaken = Weaken{}>
Report explore_first_keys(const Bounds& bounds) {
  using Queue = KeyedMpmc<kWeaken>;
  return model::explore(bounds, [](Execution& run) {
    auto log = std::make_shared<Log<Queue>>(2);
    run.thread([log] {
      for (int item : {1, 2, 3}) log->put_one(0, item);
    });
    run.thread([log, &run] {
      int item = 0;
      const bool took = log->queue.take(item);
      if (took) log->taken[0].push_back(item);
      const uint64_t key = log->queue.first_key();
      const bool later = key > static_cast<uint64_t>(item) && key <= 3;
      run.expect(key == Queue::kNoKey || later, "the key of no item that is there");
    });
    run.finally([log, &run] {
      const uint64_t key = log->queue.first_key();
      int item = 0;
      const bool took = log->queue.take(item);
      if (took) log->taken[0].push_back(item);
      run.expect(took ? key == static_cast<uint64_t>(item) : key == Queue::kNoKey, "another key");
      log->check(run);
    });
  });
}

TEST(Interleave, mpmc_shows_the_key_of_what_comes_next) {
  expect_sound(explore_first_keys(within(4, 3)));
}

TEST(Interleave, checker_notices_keys_without_acquire_or_release) {
  EXPECT_NE(explore_first_keys<kWeakLoads>(within(2, 2)).failure, "");
  EXPECT_NE(explore_first_keys<kWeakStores>(within(2, 2)).failure, "");
}

// Three nodes of a free list, and what two threads do with them.
template <Weaken kWeaken>
struct Nodes {
  struct Node {
    FreeLink<model::Sync<kWeaken>> free_link;
    model::Plain<int> taken;
  };
  explicit Nodes(bool forgets) : forgets_times(forgets) {
    for (Node& node : nodes) list.give(node);
    list.give(*list.refill());  // which leaves two to be taken, and one given
  }
  // By one thread with `refills`.
  Node* take(bool refills = false) {
    Node* node = list.take();
    if (node == nullptr && refills) node = list.refill();
    if (node != nullptr) node->taken = node->taken + 1;
    return node;
  }
  void give(Node* node) {
    if (node == nullptr) return;
    if (forgets_times) node->free_link.times = node->free_link.times - 1;
    list.give(*node);
  }
  // Takes what is left; each node once.
  void check(Execution& run) {
    const auto kept = static_cast<uint32_t>(
        std::count_if(keeps.begin(), keeps.end(), [](const Node* own) { return own != nullptr; }));
    run.expect(list.depth() == nodes.size() - kept, "depth of the list");
    std::array<Node*, 3> left{};
    for (uint32_t i = 0; i < nodes.size() - kept; ++i) {
      left[i] = list.take();
      if (left[i] == nullptr) left[i] = list.refill();
      run.expect(left[i] != nullptr, "a node is lost");
      for (uint32_t j = 0; j < i; ++j) run.expect(left[i] != left[j], "a node is there twice");
      for (const Node* own : keeps) run.expect(left[i] != own, "a node is there that was taken");
    }
    run.expect(list.take() == nullptr && list.refill() == nullptr, "a node too many");
  }

  std::array<Node, 3> nodes;
  FreeList<Node, model::Sync<kWeaken>> list{nodes.data()};
  std::array<const Node*, 2> keeps{};
  const bool forgets_times;  // a node comes back as if it had not been away
};

// One takes a node and keeps it, if there is one to take. The other takes two, gives both back, and
// takes the last one again, which leaves the first one to be taken.
template <Weaken kWeaken = Weaken{}>
Report explore_nodes(const Bounds& bounds, bool forgets_times = false) {
  return model::explore(bounds, [forgets_times](Execution& run) {
    auto nodes = std::make_shared<Nodes<kWeaken>>(forgets_times);
    run.thread([nodes] { nodes->keeps[0] = nodes->take(); });
    run.thread([nodes, &run] {
      auto* const first = nodes->take(true);
      auto* const last = nodes->take(true);
      nodes->give(first);
      nodes->give(last);
      nodes->keeps[1] = nodes->take(true);
      const uint32_t depth = nodes->list.depth();
      run.expect(depth == 1 || depth == 2, "depth beside the other thread");
    });
    run.finally([nodes, &run] { nodes->check(run); });
  });
}

// One gives back what it took, the other takes all that it can find.
template <Weaken kWeaken = Weaken{}>
Report explore_refills(const Bounds& bounds) {
  return model::explore(bounds, [](Execution& run) {
    auto nodes = std::make_shared<Nodes<kWeaken>>(false);
    run.thread([nodes] { nodes->give(nodes->take()); });
    run.thread([nodes, &run] {
      for (auto& own : nodes->keeps) own = nodes->take(true);
      run.expect(nodes->keeps[1] != nullptr, "two are always there");
      const uint32_t depth = nodes->list.depth();
      run.expect(depth <= 1, "depth beside the other thread");
    });
    run.finally([nodes, &run] { nodes->check(run); });
  });
}

TEST(Interleave, free_list_between_two_threads) {
  expect_sound(explore_nodes(within(4, 3)));
  expect_sound(explore_refills(within(4, 3)));
}

TEST(Interleave, checker_notices_a_free_list_without_times) {
  EXPECT_NE(explore_nodes(within(2, 2), true).failure, "");
}

TEST(Interleave, checker_notices_a_free_list_without_acquire_or_release) {
  EXPECT_NE(explore_nodes<kWeakLoads>(within(2, 2)).failure, "");
  EXPECT_NE(explore_nodes<kWeakStores>(within(2, 2)).failure, "");
  EXPECT_NE((explore_refills<Weaken{.exchanges = true}>(within(2, 2)).failure), "");
}

TEST(Interleave, checker_notices_spsc_without_acquire_or_release) {
  EXPECT_NE(explore<Spsc<kWeakLoads>>(within(2, 1), {put_five, take_four}).failure, "");
  EXPECT_NE(explore<Spsc<kWeakStores>>(within(2, 1), {put_five, take_four}).failure, "");
}

TEST(Interleave, checker_notices_mpmc_without_acquire_or_release) {
  EXPECT_NE(explore<Mpmc<kWeakLoads>>(within(2, 1), {put_five, take_four}).failure, "");
  EXPECT_NE(explore<Mpmc<kWeakStores>>(within(2, 1), {put_five, take_four}).failure, "");
}

TEST(Interleave, checker_notices_ordered_without_acquire_or_release) {
  EXPECT_NE(explore<Ordered<kWeakLoads>>(within(2, 1), {put_two<0>, put_two<1>}).failure, "");
  EXPECT_NE(explore<Ordered<kWeakStores>>(within(2, 1), {put_two<0>, put_two<1>}).failure, "");
}

TEST(Interleave, checker_notices_steal_without_acquire_or_release) {
  EXPECT_NE(explore<Steal<kWeakLoads>>(within(2, 2), {own, take_four}).failure, "");
  EXPECT_NE(explore<Steal<kWeakStores>>(within(2, 2), {own, take_four}).failure, "");
}

}  // namespace
}  // namespace rubato
