// SPDX-License-Identifier: Apache-2.0
//
// LocalQueue: a bounded FIFO ring that only its owner touches, with the interface of StealQueue, so
// that a policy that shares no queue pays for no compare-exchange and no fence.
//
// Thread safety: put, put_batch, take, steal by the owner only. depth, produced, consumed from any
// thread, as the hints that load balancing reads; they are relaxed and order nothing.
#pragma once

#include <algorithm>
#include <memory>
#include <span>

#include "mechanism/queue/sync.h"

namespace rubato {

template <QueueItem T, class Sync = StdSync>
class LocalQueue {
 public:
  // Requires a power of two.
  explicit LocalQueue(uint32_t capacity)
      : slots_(queue_slots(capacity)), mask_(slots_ - 1), ring_(std::make_unique<T[]>(slots_)) {}
  LocalQueue(const LocalQueue&) = delete;
  LocalQueue& operator=(const LocalQueue&) = delete;

  // False = full, nothing was put.
  bool put(T item) {
    const uint64_t tail = produced();
    RUBATO_DCHECK(tail - consumed() <= slots_);
    if (tail - consumed() == slots_) return false;
    ring_[tail & mask_] = item;
    produced_.store(tail + 1, std::memory_order_relaxed);
    return true;
  }

  // Puts a prefix of `items`; returns its length, shorter only if the queue is full.
  uint32_t put_batch(std::span<const T> items) {
    const uint64_t tail = produced();
    const uint64_t count = std::min<uint64_t>(slots_ - (tail - consumed()), items.size());
    for (uint64_t i = 0; i < count; ++i) ring_[(tail + i) & mask_] = items[i];
    produced_.store(tail + count, std::memory_order_relaxed);
    return static_cast<uint32_t>(count);
  }

  // False = empty, `item` is untouched.
  bool take(T& item) {
    const uint64_t head = consumed();
    RUBATO_DCHECK(head <= produced());
    if (head == produced()) return false;
    item = ring_[head & mask_];
    consumed_.store(head + 1, std::memory_order_relaxed);
    return true;
  }

  // Takes up to out.size() of the oldest items in order; 0 = empty. By the owner only, in spite of
  // the name, which it shares with StealQueue.
  uint32_t steal(std::span<T> out) {
    const uint64_t head = consumed();
    const uint64_t count = std::min<uint64_t>(produced() - head, out.size());
    for (uint64_t i = 0; i < count; ++i) out[i] = ring_[(head + i) & mask_];
    consumed_.store(head + count, std::memory_order_relaxed);
    return static_cast<uint32_t>(count);
  }

  // Exact for the owner, a hint for other threads.
  uint32_t depth() const { return queue_depth(*this); }

  // Items ever put and ever taken.
  uint64_t produced() const { return produced_.load(std::memory_order_relaxed); }
  uint64_t consumed() const { return consumed_.load(std::memory_order_relaxed); }
  uint32_t capacity() const { return static_cast<uint32_t>(slots_); }

 private:
  template <class U>
  using Atomic = typename Sync::template Atomic<U>;

  // One line: all of it is the owner's, and a reader wants both indices.
  alignas(limits::kCacheLineBytes) Atomic<uint64_t> produced_{0};
  Atomic<uint64_t> consumed_{0};
  const uint64_t slots_;
  const uint64_t mask_;
  const std::unique_ptr<T[]> ring_;
};

static_assert(sizeof(LocalQueue<void*>) == limits::kCacheLineBytes);

}  // namespace rubato
