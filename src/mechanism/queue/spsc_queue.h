// SPDX-License-Identifier: Apache-2.0
//
// SpscQueue: a bounded FIFO ring between one producer thread and one consumer thread, wait-free on
// both sides.
//
// Thread safety: put, put_batch by one thread at a time; take, take_batch by one thread at a time;
// the rest from any thread. Owns its slots; items are copied in and out.
//
// Memory order, all of it:
//   A  producer stores produced_ (release)  ->  consumer loads it (acquire): the items are there.
//   B  consumer stores consumed_ (release)  ->  producer loads it (acquire): the slots were read
//      and may be written again.
// Each side keeps its last sight of the other's index beside its own (`_seen_`) and looks again
// only when that says full or empty, so that in steady flow the two lines rarely travel.
#pragma once

#include <algorithm>
#include <memory>
#include <span>

#include "mechanism/queue/sync.h"

namespace rubato {

template <QueueItem T, class Sync = StdSync>
class SpscQueue {
 public:
  // Requires a power of two.
  explicit SpscQueue(uint32_t capacity)
      : slots_(queue_slots(capacity)),
        mask_(slots_ - 1),
        ring_(std::make_unique<typename Sync::template Plain<T>[]>(slots_)) {}
  SpscQueue(const SpscQueue&) = delete;
  SpscQueue& operator=(const SpscQueue&) = delete;

  // Producer. False = full, nothing was put.
  bool put(T item) { return put_batch({&item, 1}) == 1; }

  // Producer. Puts a prefix of `items`; returns its length, shorter only if the queue is full.
  uint32_t put_batch(std::span<const T> items) {
    const uint64_t tail = produced_.load(std::memory_order_relaxed);
    uint64_t room = slots_ - (tail - consumed_seen_);
    if (room < items.size()) {
      consumed_seen_ = consumed_.load(std::memory_order_acquire);  // B
      room = slots_ - (tail - consumed_seen_);
    }
    const uint64_t count = std::min<uint64_t>(room, items.size());
    for (uint64_t i = 0; i < count; ++i) ring_[(tail + i) & mask_] = items[i];
    produced_.store(tail + count, std::memory_order_release);  // A
    return static_cast<uint32_t>(count);
  }

  // Consumer. False = empty, `item` is untouched.
  bool take(T& item) { return take_batch({&item, 1}) == 1; }

  // Consumer. Fills a prefix of `items` in order; returns its length, shorter only if the queue is
  // empty.
  uint32_t take_batch(std::span<T> items) {
    const uint64_t head = consumed_.load(std::memory_order_relaxed);
    uint64_t waiting = produced_seen_ - head;
    if (waiting < items.size()) {
      produced_seen_ = produced_.load(std::memory_order_acquire);  // A
      waiting = produced_seen_ - head;
    }
    const uint64_t count = std::min<uint64_t>(waiting, items.size());
    for (uint64_t i = 0; i < count; ++i) items[i] = ring_[(head + i) & mask_];
    consumed_.store(head + count, std::memory_order_release);  // B
    return static_cast<uint32_t>(count);
  }

  // A hint, exact when neither side moves.
  uint32_t depth() const { return queue_depth(*this); }

  // Items ever put and ever taken.
  uint64_t produced() const { return produced_.load(std::memory_order_relaxed); }
  uint64_t consumed() const { return consumed_.load(std::memory_order_relaxed); }
  uint32_t capacity() const { return static_cast<uint32_t>(slots_); }

 private:
  template <class U>
  using Atomic = typename Sync::template Atomic<U>;

  // Read by both sides, written by none.
  alignas(limits::kCacheLineBytes) const uint64_t slots_;
  const uint64_t mask_;
  const std::unique_ptr<typename Sync::template Plain<T>[]> ring_;
  // The producer's line.
  alignas(limits::kCacheLineBytes) Atomic<uint64_t> produced_{0};
  uint64_t consumed_seen_ = 0;
  // The consumer's line.
  alignas(limits::kCacheLineBytes) Atomic<uint64_t> consumed_{0};
  uint64_t produced_seen_ = 0;
};

static_assert(sizeof(SpscQueue<void*>) == 3 * limits::kCacheLineBytes);

}  // namespace rubato
