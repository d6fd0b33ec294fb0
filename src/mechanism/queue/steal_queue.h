// SPDX-License-Identifier: Apache-2.0
//
// StealQueue: a worker's inbox from which idle workers steal. A bounded FIFO ring with one
// producer, the owner, and many consumers, the owner and the thieves, all of which take from the
// head: unlike a work-stealing deque it never serves the newest first, which would ruin tail
// latency.
//
// Thread safety: put, put_batch by the owner only; everything else from any thread. Owns its slots;
// items are copied in and out.
//
// A consumer reads the items first and then tries to move consumed_ past them; only if that
// compare-exchange succeeds are the items its own. Memory order, all of it:
//   A  owner stores produced_ (release)  ->  consumer loads it (acquire): the items are there.
//   B  consumer moves consumed_ (release)  ->  owner loads it (acquire) before it writes a slot
//      again. Each move is a read-modify-write, so it continues the release sequences of the moves
//      before it, and the owner's load synchronises with all of them, not just the last.
// Why the items that a successful consumer has read cannot be torn, stale or too new:
//   - not torn: slots are lock-free atomics, read and written relaxed;
//   - not older than item i: by A, and i < produced_ was checked;
//   - not newer: the slot of i is overwritten by item i + slots, which the owner writes only after
//     it has seen consumed_ > i. The move past i is the consumer's (its exchange succeeded from a
//     value <= i, and consumed_ only grows), and its read came before it, so by B it happens before
//     the write.
// A consumer that loses the race may have read anything, which it discards. Indices have 64 bits
// and never wrap, so the exchange cannot succeed on a value that came round again (ABA).
#pragma once

#include <algorithm>
#include <memory>
#include <span>

#include "mechanism/queue/sync.h"

namespace rubato {

template <QueueItem T, class Sync = StdSync>
class StealQueue {
  static_assert(std::atomic<T>::is_always_lock_free, "items may be read while overwritten");

 public:
  // Requires a power of two.
  explicit StealQueue(uint32_t capacity)
      : slots_(queue_slots(capacity)),
        mask_(slots_ - 1),
        ring_(std::make_unique<Atomic<T>[]>(slots_)) {}
  StealQueue(const StealQueue&) = delete;
  StealQueue& operator=(const StealQueue&) = delete;

  // Owner. False = full, nothing was put.
  bool put(T item) { return put_batch({&item, 1}) == 1; }

  // Owner. Puts a prefix of `items`; returns its length, shorter only if the queue is full. All of
  // them become visible to thieves at once.
  uint32_t put_batch(std::span<const T> items) {
    const uint64_t tail = produced_.load(std::memory_order_relaxed);
    uint64_t room = slots_ - (tail - consumed_seen_);
    if (room < items.size()) {
      consumed_seen_ = consumed_.load(std::memory_order_acquire);  // B
      room = slots_ - (tail - consumed_seen_);
    }
    RUBATO_DCHECK(room <= slots_);
    const uint64_t count = std::min<uint64_t>(room, items.size());
    for (uint64_t i = 0; i < count; ++i) {
      ring_[(tail + i) & mask_].store(items[i], std::memory_order_relaxed);
    }
    produced_.store(tail + count, std::memory_order_release);  // A
    return static_cast<uint32_t>(count);
  }

  // Takes the oldest item, trying again when another consumer was faster. False = empty, `item` is
  // unspecified.
  bool take(T& item) {
    uint64_t head = consumed_.load(std::memory_order_relaxed);
    while (copy(head, {&item, 1}) == 1) {
      if (move_past(head, 1)) return true;
    }
    return false;
  }

  // Takes up to out.size() of the oldest items in order, by one exchange. 0 = empty, or another
  // consumer was faster: the caller decides whether to ask again or elsewhere. The contents of
  // `out` beyond the returned length are unspecified.
  uint32_t steal(std::span<T> out) {
    uint64_t head = consumed_.load(std::memory_order_relaxed);
    const uint32_t count = copy(head, out);
    return count > 0 && move_past(head, count) ? count : 0;
  }

  // A hint, exact while no thread puts or takes.
  uint32_t depth() const { return queue_depth(*this); }

  // Items ever put and ever taken.
  uint64_t produced() const { return produced_.load(std::memory_order_relaxed); }
  uint64_t consumed() const { return consumed_.load(std::memory_order_relaxed); }
  uint32_t capacity() const { return static_cast<uint32_t>(slots_); }

 private:
  template <class U>
  using Atomic = typename Sync::template Atomic<U>;

  // Reads the items from index `head` on, which may not be the caller's yet. A stale `head` may lie
  // so far back that the difference exceeds the ring: the move past it then fails.
  uint32_t copy(uint64_t head, std::span<T> out) const {
    const uint64_t tail = produced_.load(std::memory_order_acquire);  // A
    if (tail <= head) return 0;
    const uint64_t count = std::min<uint64_t>({tail - head, slots_, out.size()});
    for (uint64_t i = 0; i < count; ++i) {
      out[i] = ring_[(head + i) & mask_].load(std::memory_order_relaxed);
    }
    return static_cast<uint32_t>(count);
  }

  // Sets `head` to the present value of consumed_ on failure.
  bool move_past(uint64_t& head, uint64_t count) {
    return consumed_.compare_exchange_strong(head, head + count, std::memory_order_release,
                                             std::memory_order_relaxed);  // B
  }

  // Not written after construction.
  alignas(limits::kCacheLineBytes) const uint64_t slots_;
  const uint64_t mask_;
  const std::unique_ptr<Atomic<T>[]> ring_;
  // The owner's line.
  alignas(limits::kCacheLineBytes) Atomic<uint64_t> produced_{0};
  uint64_t consumed_seen_ = 0;
  // The consumers' line.
  alignas(limits::kCacheLineBytes) Atomic<uint64_t> consumed_{0};
};

static_assert(sizeof(StealQueue<void*>) == 3 * limits::kCacheLineBytes);

}  // namespace rubato
