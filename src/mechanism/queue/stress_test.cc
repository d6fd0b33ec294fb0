// SPDX-License-Identifier: Apache-2.0
//
// The queues between real threads, mostly for ThreadSanitizer's eyes: every item arrives exactly
// once, and those of one producer arrive at one consumer in order.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "mechanism/queue/free_list.h"
#include "mechanism/queue/local_queue.h"
#include "mechanism/queue/managed_queue.h"
#include "mechanism/queue/mpmc_queue.h"
#include "mechanism/queue/ordered_queue.h"
#include "mechanism/queue/spin_lock.h"
#include "mechanism/queue/spsc_queue.h"
#include "mechanism/queue/steal_queue.h"

namespace rubato {
namespace {

constexpr uint64_t kPerProducer = 60'000;
constexpr uint64_t kSerialBits = 32;

uint64_t item_of(uint64_t producer, uint64_t serial) { return producer << kSerialBits | serial; }

// The items that one consumer has received; checks the order per producer.
class Received {
 public:
  void add(std::span<const uint64_t> items) {
    for (uint64_t item : items) {
      const uint64_t producer = item >> kSerialBits;
      const uint64_t serial = item & 0xffff'ffff;
      if (producer >= next_.size()) next_.resize(producer + 1);
      in_order_ = in_order_ && serial >= next_[producer];
      next_[producer] = serial + 1;
      items_.push_back(item);
    }
  }
  bool in_order() const { return in_order_; }
  const std::vector<uint64_t>& items() const { return items_; }

 private:
  std::vector<uint64_t> next_;
  std::vector<uint64_t> items_;
  bool in_order_ = true;
};

// `step` puts a prefix of the producer's remaining items and returns its length.
void produce(uint64_t producer, const std::function<uint32_t(std::span<const uint64_t>)>& step) {
  std::vector<uint64_t> items(kPerProducer);
  for (uint64_t i = 0; i < kPerProducer; ++i) items[i] = item_of(producer, i);
  std::span<const uint64_t> rest(items);
  for (size_t batch = 1; !rest.empty(); batch = batch % 7 + 1) {
    const uint32_t count = step(rest.subspan(0, std::min(batch, rest.size())));
    if (count == 0) std::this_thread::yield();
    rest = rest.subspan(count);
  }
}

void expect_each_once(std::vector<uint64_t> all, uint64_t producers) {
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), producers * kPerProducer);
  for (uint64_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i], item_of(i / kPerProducer, i % kPerProducer));
  }
}

void expect_all(std::span<const Received> consumers, uint64_t producers) {
  std::vector<uint64_t> all;
  for (const Received& received : consumers) {
    EXPECT_TRUE(received.in_order());
    all.insert(all.end(), received.items().begin(), received.items().end());
  }
  expect_each_once(std::move(all), producers);
}

// Runs consumers until `total` items have been taken by `take`.
void consume(Received& received, std::atomic<uint64_t>& left, uint32_t batch,
             const std::function<uint32_t(std::span<uint64_t>)>& take) {
  std::vector<uint64_t> out(batch);
  while (left.load(std::memory_order_relaxed) > 0) {
    const uint32_t count = take(out);
    if (count == 0) std::this_thread::yield();
    received.add(std::span<const uint64_t>(out).subspan(0, count));
    left.fetch_sub(count, std::memory_order_relaxed);
  }
}

TEST(SpinLock, keeps_threads_apart) {
  constexpr int kThreads = 3;
  constexpr int kRounds = 20'000;
  SpinLock lock;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const std::scoped_lock held(lock);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kRounds);
}

// Fewer nodes than the threads want, but one for each. Who has one writes to it, which
// ThreadSanitizer sees.
TEST(QueueStress, free_list_between_threads_that_hold_two_nodes_each) {
  struct Node {
    FreeLink<> free_link;
    uint64_t taken = 0;
  };
  constexpr uint64_t kRounds = 50'000;
  std::array<Node, 5> nodes;
  FreeList<Node> list(nodes.data());
  for (Node& node : nodes) list.give(node);
  std::mutex refills;
  const auto take = [&]() -> Node* {
    if (Node* const node = list.take()) return node;
    const std::scoped_lock held(refills);
    Node* const node = list.take();
    return node != nullptr ? node : list.refill();
  };
  std::atomic<uint64_t> taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (uint64_t round = 0; round < kRounds; ++round) {
        const std::array<Node*, 2> own{take(), take()};
        EXPECT_NE(own[0], nullptr);
        for (Node* const node : own) {
          if (node == nullptr) continue;
          ++node->taken;
          taken.fetch_add(1, std::memory_order_relaxed);
          list.give(*node);
        }
        EXPECT_LE(list.depth(), nodes.size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(list.depth(), nodes.size());
  for (const Node& node : nodes) taken.fetch_sub(node.taken);
  EXPECT_EQ(taken.load(), 0u);
}

TEST(QueueStress, spsc_between_two_threads) {
  SpscQueue<uint64_t> queue(64);
  std::atomic<uint64_t> left{kPerProducer};
  Received received[1];
  std::thread producer([&] {
    produce(0, [&](std::span<const uint64_t> items) { return queue.put_batch(items); });
  });
  consume(received[0], left, 5, [&](std::span<uint64_t> out) { return queue.take_batch(out); });
  producer.join();
  expect_all(received, 1);
  EXPECT_EQ(queue.depth(), 0u);
}

// Two producers and two consumers, by batches; all that was put is taken once.
template <class Queue>
void pass_all(Queue& queue) {
  std::atomic<uint64_t> left{2 * kPerProducer};
  Received received[2];
  std::vector<std::thread> threads;
  for (uint64_t p = 0; p < 2; ++p) {
    threads.emplace_back([&queue, p] {
      produce(p, [&](std::span<const uint64_t> items) { return queue.put_batch(items); });
    });
  }
  for (uint32_t c = 0; c < 2; ++c) {
    threads.emplace_back([&, c] {
      consume(received[c], left, 1 + 3 * c,
              [&](std::span<uint64_t> out) { return queue.take_batch(out); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_all(received, 2);
}

TEST(QueueStress, mpmc_between_two_producers_and_two_consumers) {
  MpmcQueue<uint64_t> queue(64);
  pass_all(queue);
  EXPECT_EQ(queue.produced(), 2 * kPerProducer);
  EXPECT_EQ(queue.consumed(), 2 * kPerProducer);
}

constexpr uint64_t kFactor = 2;
struct ItsDouble {
  uint64_t operator()(uint64_t item) const { return kFactor * item; }
};

// A key is that of an item of a producer.
TEST(QueueStress, mpmc_shows_keys_while_others_put_and_take) {
  MpmcQueue<uint64_t, StdSync, ItsDouble> queue(64);
  std::atomic<bool> stop{false};
  uint64_t wrong = 0;
  std::thread reader([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      const uint64_t key = queue.first_key();
      const uint64_t item = key / kFactor;
      const uint64_t serial = item % (uint64_t{1} << kSerialBits);
      const bool known = item >> kSerialBits < 2 && serial < kPerProducer;
      if (key != queue.kNoKey && (key % kFactor != 0 || !known)) ++wrong;
    }
  });
  pass_all(queue);
  stop.store(true, std::memory_order_relaxed);
  reader.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(queue.first_key(), queue.kNoKey);
}

TEST(QueueStress, steal_from_an_owner_that_puts_and_takes) {
  StealQueue<uint64_t> queue(64);
  std::atomic<uint64_t> left{kPerProducer};
  Received received[3];
  std::vector<std::thread> thieves;
  for (uint32_t t = 1; t < 3; ++t) {
    thieves.emplace_back([&, t] {
      consume(received[t], left, 8, [&](std::span<uint64_t> out) { return queue.steal(out); });
    });
  }
  produce(0, [&](std::span<const uint64_t> items) {
    const uint32_t count = queue.put_batch(items);
    uint64_t item = 0;
    if (queue.take(item)) {
      received[0].add({&item, 1});
      left.fetch_sub(1, std::memory_order_relaxed);
    }
    return count;
  });
  for (std::thread& thread : thieves) thread.join();
  expect_all(received, 1);
}

// Two threads take the manager's consumer by turns, as in Managers::step. Items taken at the tail
// are newer than those that stay, so only the head keeps the order.
TEST(QueueStress, managed_between_two_producers_and_a_changing_consumer) {
  ManagedQueue<uint64_t> queue(64);
  std::atomic<uint64_t> left{2 * kPerProducer};
  std::atomic_flag consumer{};
  Received from_head[2], from_tail[2];
  std::vector<std::thread> threads;
  for (uint64_t p = 0; p < 2; ++p) {
    threads.emplace_back([&queue, p] {
      produce(p, [&](std::span<const uint64_t> items) { return queue.put(items[0]) ? 1u : 0u; });
    });
  }
  for (uint32_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t turn = 0; left.load(std::memory_order_relaxed) > 0; ++turn) {
        if (consumer.test_and_set(std::memory_order_acquire)) {
          std::this_thread::yield();
          continue;
        }
        uint64_t item = 0;
        const bool tail = turn % 3 == 0;
        const bool taken = tail ? queue.take_tail(item) : queue.take(item);
        consumer.clear(std::memory_order_release);
        if (!taken) {
          std::this_thread::yield();
          continue;
        }
        (tail ? from_tail : from_head)[t].add({&item, 1});
        left.fetch_sub(1, std::memory_order_relaxed);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Received& received : from_head) EXPECT_TRUE(received.in_order());
  std::vector<uint64_t> all;
  for (const Received* received : {&from_head[0], &from_head[1], &from_tail[0], &from_tail[1]}) {
    all.insert(all.end(), received->items().begin(), received->items().end());
  }
  expect_each_once(std::move(all), 2);
  EXPECT_EQ(queue.depth(), 0u);
}

struct BySerial {
  uint64_t operator()(uint64_t item) const { return item & 0xffff'ffff; }
};

// The items of a producer have ever larger keys, so one consumer sees them in order.
TEST(QueueStress, ordered_between_two_producers_and_two_consumers) {
  OrderedQueue<uint64_t, BySerial> queue(64);
  std::atomic<uint64_t> left{2 * kPerProducer};
  Received received[2];
  std::vector<std::thread> threads;
  for (uint64_t p = 0; p < 2; ++p) {
    threads.emplace_back([&queue, p] {
      produce(p, [&](std::span<const uint64_t> items) { return queue.put(items[0]) ? 1u : 0u; });
    });
  }
  for (uint32_t c = 0; c < 2; ++c) {
    threads.emplace_back([&, c] {
      consume(received[c], left, 1,
              [&](std::span<uint64_t> out) { return queue.take(out[0]) ? 1u : 0u; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_all(received, 2);
  EXPECT_EQ(queue.depth(), 0u);
  EXPECT_EQ(queue.first_key(), queue.kNoKey);
}

TEST(QueueStress, local_depth_can_be_read_from_another_thread) {
  LocalQueue<uint64_t> queue(64);
  std::atomic<bool> stop{false};
  uint64_t most = 0;
  std::thread reader([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      most = std::max<uint64_t>(most, queue.depth());
    }
  });
  Received received[1];
  produce(0, [&](std::span<const uint64_t> items) {
    const uint32_t count = queue.put_batch(items);
    uint64_t out[3];
    received[0].add(std::span<const uint64_t>(out).subspan(0, queue.steal(out)));
    return count;
  });
  for (uint64_t item = 0; queue.take(item);) received[0].add({&item, 1});
  stop.store(true, std::memory_order_relaxed);
  reader.join();
  EXPECT_LE(most, kPerProducer);
  expect_all(received, 1);
}

}  // namespace
}  // namespace rubato
