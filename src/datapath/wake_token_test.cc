// SPDX-License-Identifier: Apache-2.0
#include "datapath/wake_token.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>

#include "datapath/push_list.h"
#include "mechanism/queue/testing/model.h"

namespace rubato {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

struct CountingQueue {
  void wake() {
    ++wakes;
    sleeps_on = !token.wake();
  }
  WakeToken<CountingQueue> token;
  int wakes = 0;
  bool sleeps_on = false;
};

TEST(WakeToken, a_wake_is_remembered_for_one_wait) {
  WakeToken<CountingQueue> token;
  EXPECT_FALSE(token.wake());
  EXPECT_FALSE(token.wake());
  EXPECT_FALSE(token.begin_wait());
  token.end_wait();
  EXPECT_TRUE(token.begin_wait());
  token.end_wait();
}

TEST(WakeToken, the_first_of_several_wakes_ends_the_sleep) {
  WakeToken<CountingQueue> token;
  EXPECT_TRUE(token.begin_wait());
  EXPECT_TRUE(token.wake());
  EXPECT_FALSE(token.wake());
  token.end_wait();
  EXPECT_TRUE(token.begin_wait());
  EXPECT_TRUE(token.wake());
}

TEST(WakeToken, every_wake_goes_to_the_proxy_poller_while_there_is_one) {
  WakeToken<CountingQueue> token;
  CountingQueue proxy;
  token.delegate_to(&proxy);
  EXPECT_TRUE(proxy.token.begin_wait());
  EXPECT_FALSE(token.wake());
  EXPECT_FALSE(proxy.sleeps_on);
  EXPECT_FALSE(token.wake());
  EXPECT_EQ(proxy.wakes, 2);
  token.delegate_to(nullptr);
  EXPECT_TRUE(token.begin_wait());
  EXPECT_TRUE(token.wake());
  EXPECT_EQ(proxy.wakes, 2);
}

// Under the model checker. A queue with an eventfd, which the kernel keeps, and the work of two
// wakers. An owner that overlooks work waits for ever, which is a failure of the scenario.
enum class Eventfd { kRead, kEdgeTriggered };  // as UdpQueue has it, and TcpQueue

template <model::Weaken kWeaken>
struct ModelQueue {
  void bring(size_t waker) {
    work[waker].store(1, kRelaxed);
    wake();
  }
  void wake() {
    if (!token.wake()) return;
    event.fetch_add(1, std::memory_order_seq_cst);
    event.notify_one();
  }
  bool has_work(size_t waker) const { return work[waker].load(kRelaxed) == 1; }

  void wait(Eventfd eventfd) {
    if (token.begin_wait()) event.wait(heard, kRelaxed);
    token.end_wait();
    if (eventfd == Eventfd::kRead) {
      event.exchange(0, kRelaxed);
    } else {
      heard = event.load(kRelaxed);
    }
  }

  WakeToken<ModelQueue, model::Sync<kWeaken>> token;
  std::array<model::Atomic<int>, 2> work;
  model::Atomic<uint32_t> event;
  uint32_t heard = 0;
};

constexpr model::Bounds kBounds = model::within(3, 3);

template <model::Weaken kWeaken>
model::Report owner_beside_two_wakers(Eventfd eventfd) {
  return model::explore(kBounds, [eventfd](model::Execution& run) {
    auto queue = std::make_shared<ModelQueue<kWeaken>>();
    run.thread([queue, eventfd] {
      while (!queue->has_work(0) || !queue->has_work(1)) queue->wait(eventfd);
    });
    run.thread([queue] { queue->bring(0); });
    run.thread([queue] { queue->bring(1); });
  });
}

TEST(WakeToken, the_owner_overlooks_no_work_that_it_was_woken_for) {
  for (const Eventfd eventfd : {Eventfd::kRead, Eventfd::kEdgeTriggered}) {
    const model::Report report = owner_beside_two_wakers<model::Weaken{}>(eventfd);
    EXPECT_EQ(report.failure, "");
    EXPECT_GE(report.executions, 50u);
    RecordProperty("executions", std::to_string(report.executions));
  }
}

TEST(WakeToken, the_owner_would_without_seq_cst_or_acquire_and_release) {
  constexpr model::Weaken kSeqCst{.seq_cst = true};
  constexpr model::Weaken kLoads{.loads = true};
  constexpr model::Weaken kStores{.stores = true};
  constexpr model::Weaken kExchanges{.exchanges = true};
  for (const Eventfd eventfd : {Eventfd::kRead, Eventfd::kEdgeTriggered}) {
    EXPECT_NE(owner_beside_two_wakers<kSeqCst>(eventfd).failure, "");
    EXPECT_NE(owner_beside_two_wakers<kLoads>(eventfd).failure, "");
    EXPECT_NE(owner_beside_two_wakers<kStores>(eventfd).failure, "");
    EXPECT_NE(owner_beside_two_wakers<kExchanges>(eventfd).failure, "");
  }
}

// Work in a list. Who pushes onto an empty list wakes the owner, for the others too, as in
// executor/task_queue.h.
struct Item {
  Item* next_in_list = nullptr;
};

enum class Wakes { kIfEmpty, kBeforePush };

template <model::Weaken kWeaken>
model::Report owner_beside_two_pushers(Wakes wakes) {
  struct Scene {
    PushList<Item, model::Sync<kWeaken>> list;
    ModelQueue<kWeaken> queue;
    std::array<Item, 3> items;
    int taken = 0;
  };
  return model::explore(kBounds, [wakes](model::Execution& run) {
    auto scene = std::make_shared<Scene>();
    const auto push = [scene, wakes](size_t item) {
      if (wakes == Wakes::kBeforePush) scene->queue.wake();
      if (scene->list.push(scene->items[item]) && wakes == Wakes::kIfEmpty) scene->queue.wake();
    };
    run.thread([scene] {
      for (;;) {
        for (Item* item = scene->list.take_all(); item != nullptr; item = item->next_in_list) {
          ++scene->taken;
        }
        if (scene->taken == 3) return;
        scene->queue.wait(Eventfd::kRead);
      }
    });
    run.thread([push] {
      push(0);
      push(1);
    });
    run.thread([push] { push(2); });
  });
}

TEST(WakeToken, who_pushes_first_wakes_for_all_that_follow) {
  const model::Report report = owner_beside_two_pushers<model::Weaken{}>(Wakes::kIfEmpty);
  EXPECT_EQ(report.failure, "");
  EXPECT_GE(report.executions, 50u);
  RecordProperty("executions", std::to_string(report.executions));
}

TEST(WakeToken, work_would_be_overlooked_if_the_wake_came_first_or_without_order) {
  constexpr model::Weaken kSeqCst{.seq_cst = true};
  constexpr model::Weaken kExchanges{.exchanges = true};
  EXPECT_NE(owner_beside_two_pushers<model::Weaken{}>(Wakes::kBeforePush).failure, "");
  EXPECT_NE(owner_beside_two_pushers<kSeqCst>(Wakes::kIfEmpty).failure, "");
  EXPECT_NE(owner_beside_two_pushers<kExchanges>(Wakes::kIfEmpty).failure, "");
}

// The owner goes away while a thread brings work; the proxy poller looks at the queue once it is
// told that it is delegated, as in runtime/core_parking.h and runtime/idle_loop.h.
template <model::Weaken kWeaken>
model::Report owner_goes_beside_a_waker() {
  struct Scene {
    ModelQueue<kWeaken> queue;
    ModelQueue<kWeaken> proxy;
    model::Atomic<int> delegated;
  };
  return model::explore(kBounds, [](model::Execution& run) {
    auto scene = std::make_shared<Scene>();
    run.thread([scene] {
      scene->queue.token.delegate_to(&scene->proxy);
      scene->delegated.store(1, std::memory_order_release);
      scene->proxy.wake();
    });
    run.thread([scene] { scene->queue.bring(0); });
    run.thread([scene] {
      const auto looks = [scene] {
        return scene->delegated.load(std::memory_order_acquire) == 1 && scene->queue.has_work(0);
      };
      while (!looks()) scene->proxy.wait(Eventfd::kEdgeTriggered);
    });
  });
}

// The owner goes, comes back and waits itself.
template <model::Weaken kWeaken>
model::Report owner_comes_back_beside_a_waker() {
  struct Scene {
    ModelQueue<kWeaken> queue;
    ModelQueue<kWeaken> proxy;
  };
  return model::explore(kBounds, [](model::Execution& run) {
    auto scene = std::make_shared<Scene>();
    run.thread([scene] {
      scene->queue.token.delegate_to(&scene->proxy);
      scene->queue.token.delegate_to(nullptr);
      while (!scene->queue.has_work(0)) scene->queue.wait(Eventfd::kEdgeTriggered);
    });
    run.thread([scene] { scene->queue.bring(0); });
  });
}

TEST(WakeToken, no_wake_is_lost_between_the_owner_and_the_proxy_poller) {
  for (const auto explore : {owner_goes_beside_a_waker<model::Weaken{}>,
                             owner_comes_back_beside_a_waker<model::Weaken{}>}) {
    const model::Report report = explore();
    EXPECT_EQ(report.failure, "");
    EXPECT_GE(report.executions, 20u);
    RecordProperty("executions", std::to_string(report.executions));
  }
}

TEST(WakeToken, one_would_be_without_seq_cst_or_release) {
  constexpr model::Weaken kSeqCst{.seq_cst = true};
  constexpr model::Weaken kExchanges{.exchanges = true};
  EXPECT_NE(owner_goes_beside_a_waker<kSeqCst>().failure, "");
  EXPECT_NE(owner_comes_back_beside_a_waker<kSeqCst>().failure, "");
  EXPECT_NE(owner_goes_beside_a_waker<kExchanges>().failure, "");
  EXPECT_NE(owner_comes_back_beside_a_waker<kExchanges>().failure, "");
}

// For ThreadSanitizer: the owner waits whenever it finds nothing, and now and then goes away for a
// while, when the proxy poller does its work.
TEST(WakeToken, all_work_is_done_by_the_owner_or_the_proxy_poller) {
  struct Queue {
    void wake() {
      if (!token.wake()) return;
      event.fetch_add(1);
      event.notify_one();
    }
    void wait() {
      const uint32_t heard = event.load();
      if (token.begin_wait()) event.wait(heard);
      token.end_wait();
    }
    WakeToken<Queue> token;
    std::atomic<uint32_t> event{0};
  };
  constexpr int kEach = 5'000;
  Queue queue;
  Queue proxy;
  std::atomic<int> work{0};
  std::atomic<int> done{0};
  std::atomic<bool> delegated{false};
  const auto take = [&] {
    const int found = work.exchange(0, kRelaxed);
    done.fetch_add(found, kRelaxed);
    return found > 0;
  };
  const auto bring = [&] {
    for (int i = 0; i < kEach; ++i) {
      work.fetch_add(1, kRelaxed);
      queue.wake();
      while (i % 4 == 0 && work.load(kRelaxed) > 0) std::this_thread::yield();
    }
  };
  std::thread poller([&] {
    while (done.load(kRelaxed) < 2 * kEach) {
      if (!delegated.load(std::memory_order_acquire) || !take()) proxy.wait();
    }
    queue.wake();
  });
  std::thread first(bring);
  std::thread second(bring);
  for (int round = 0; done.load(kRelaxed) < 2 * kEach; ++round) {
    if (!take() && done.load(kRelaxed) < 2 * kEach) queue.wait();
    if (round % 8 != 0) continue;
    queue.token.delegate_to(&proxy);
    delegated.store(true, std::memory_order_release);
    proxy.wake();
    std::this_thread::yield();
    delegated.store(false, kRelaxed);
    queue.token.delegate_to(nullptr);
  }
  proxy.wake();
  for (std::thread* thread : {&poller, &first, &second}) thread->join();
  EXPECT_EQ(done.load(), 2 * kEach);
}

}  // namespace
}  // namespace rubato
