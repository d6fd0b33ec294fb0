// SPDX-License-Identifier: Apache-2.0
//
// MpmcQueue: a bounded FIFO ring for any number of producers and consumers, after D. Vyukov's
// "Bounded MPMC queue" (2010), with batches added. It is the global wait queue of the policies. If
// asked to, it shows a key of the item that is taken next: KeyOf()(item) -> uint64_t, read once, by
// put, while the item is the caller's.
//
// Thread safety: every method from any thread. Owns its slots; items are copied in and out.
//
// Every slot carries a number that tells which side may use it next. For the item with index i, in
// slot i mod slots:
//                number == i           free, for the producer of item i
//                number == i + 1       filled, for the consumer of item i
//                number == i + slots   free, for the producer of item i + slots
// A thread claims indices by moving produced_ or consumed_ with a compare-exchange, then has the
// slots for itself. Only the claimer of index i ever changes the number away from "i" or "i + 1",
// therefore slots seen ready stay ready until the claim, and a run of ready slots can be claimed
// at once. Indices have 64 bits and never wrap, so a compare-exchange cannot succeed on a number
// that came round again.
//
// Memory order, all of it:
//   A  producer stores number = i + 1 (release) -> consumer loads it (acquire): item is there.
//   B  consumer stores number = i + slots (release) -> producer loads it (acquire): item was read.
// The two indices carry no data and are relaxed throughout; A and B order everything. A key is
// stored before A and read after it, relaxed: it may be that of a later item in the same slot, if
// the one that it was asked for has been taken meanwhile.
//
// Not lock-free in the strict sense: a producer that is stopped between its claim and its store
// holds up the consumers behind it (they see "empty"), though never the other producers. Workers
// are not preempted inside a queue operation by this runtime; the kernel may still do it.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <type_traits>

#include "mechanism/queue/sync.h"

namespace rubato {

// Of queues that show nothing of their items.
struct NoKey {};

template <QueueItem T, class Sync = StdSync, class KeyOf = NoKey>
class MpmcQueue {
 public:
  using Key = KeyOf;
  static constexpr uint64_t kNoKey = UINT64_MAX;

  // Requires a power of two. Holds two items if asked for one.
  explicit MpmcQueue(uint32_t capacity)
      : slots_(queue_slots(capacity)), mask_(slots_ - 1), ring_(std::make_unique<Slot[]>(slots_)) {
    for (uint64_t i = 0; i < slots_; ++i) ring_[i].number.store(i, std::memory_order_relaxed);
  }
  MpmcQueue(const MpmcQueue&) = delete;
  MpmcQueue& operator=(const MpmcQueue&) = delete;

  // False = full, nothing was put.
  bool put(T item) {
    uint64_t at = 0;
    Slot* slot = nullptr;
    if (!claim_one(produced_, 0, at, slot)) return false;
    fill(*slot, at, item);
    return true;
  }

  // Puts a prefix of `items`, next to each other in the queue; returns its length, shorter only if
  // the queue was full (or a consumer has not finished with the slot that comes next).
  uint32_t put_batch(std::span<const T> items) {
    uint64_t first = 0;
    const uint64_t count = claim(produced_, 0, items.size(), first);
    for (uint64_t i = 0; i < count; ++i) {
      fill(ring_[(first + i) & mask_], first + i, items[i]);
    }
    return static_cast<uint32_t>(count);
  }

  // False = empty, or the next item's producer has not finished; `item` is untouched.
  bool take(T& item) {
    uint64_t at = 0;
    Slot* slot = nullptr;
    if (!claim_one(consumed_, 1, at, slot)) return false;
    item = slot->item;
    slot->number.store(at + slots_, std::memory_order_release);  // B
    return true;
  }

  // Fills a prefix of `items` with neighbours in order; returns its length, shorter only if the
  // queue was empty (or a producer has not finished with the slot that comes next).
  uint32_t take_batch(std::span<T> items) {
    uint64_t first = 0;
    const uint64_t count = claim(consumed_, 1, items.size(), first);
    for (uint64_t i = 0; i < count; ++i) {
      Slot& slot = ring_[(first + i) & mask_];
      items[i] = slot.item;
      slot.number.store(first + i + slots_, std::memory_order_release);  // B
    }
    return static_cast<uint32_t>(count);
  }

  // A hint, exact while no thread puts or takes. Counts items whose producer or consumer is not yet
  // done.
  uint32_t depth() const { return queue_depth(*this); }

  // The key of the item that is taken next; kNoKey = empty, or its producer has not finished. A
  // hint, exact while no thread takes.
  uint64_t first_key() const {
    static_assert(kShowsKeys, "a queue whose items have no keys");
    for (uint64_t at = consumed();; at = consumed()) {
      const Slot& slot = ring_[at & mask_];
      const uint64_t number = slot.number.load(std::memory_order_acquire);  // A
      if (number == at + 1) return slot.key.load(std::memory_order_relaxed);
      if (!overtaken(number, at, 1)) return kNoKey;
    }
  }

  // Items ever claimed by producers and by consumers: the two indices that Synergy's congestion
  // test compares over time (Synergy 5.2.3).
  uint64_t produced() const { return produced_.load(std::memory_order_relaxed); }
  uint64_t consumed() const { return consumed_.load(std::memory_order_relaxed); }
  uint32_t capacity() const { return static_cast<uint32_t>(slots_); }

 private:
  template <class U>
  using Atomic = typename Sync::template Atomic<U>;

  static constexpr bool kShowsKeys = !std::is_same_v<KeyOf, NoKey>;

  struct SlotWithoutKey {
    Atomic<uint64_t> number;
    typename Sync::template Plain<T> item;
  };
  struct SlotWithKey : SlotWithoutKey {
    Atomic<uint64_t> key;
  };
  using Slot = std::conditional_t<kShowsKeys, SlotWithKey, SlotWithoutKey>;

  // By the producer that has claimed index `at` and with it the slot.
  static void fill(Slot& slot, uint64_t at, T item) {
    slot.item = item;
    if constexpr (kShowsKeys) slot.key.store(KeyOf()(item), std::memory_order_relaxed);
    slot.number.store(at + 1, std::memory_order_release);  // A
  }

  // How many slots from index `first` on, at most `wanted`, are ready for this side: their number
  // is their index plus `ahead`, 0 for producers and 1 for consumers.
  uint64_t ready(uint64_t first, uint64_t ahead, uint64_t wanted) const {
    uint64_t count = 0;
    while (count < wanted && ring_[(first + count) & mask_].number.load(
                                 std::memory_order_acquire) == first + count + ahead) {
      ++count;
    }
    return count;
  }

  // True if another thread has moved on past index `first`, where it left `number`, so that `first`
  // is to be read again; false if the slot there is simply not ready.
  static bool overtaken(uint64_t number, uint64_t first, uint64_t ahead) {
    return static_cast<int64_t>(number - (first + ahead)) > 0;
  }

  // Claims the next slot, at index `at`, by moving `index`; false = it is not ready.
  bool claim_one(Atomic<uint64_t>& index, uint64_t ahead, uint64_t& at, Slot*& slot) {
    at = index.load(std::memory_order_relaxed);
    for (;;) {
      slot = &ring_[at & mask_];
      const uint64_t number = slot->number.load(std::memory_order_acquire);
      if (number == at + ahead) {
        if (index.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) return true;
      } else if (overtaken(number, at, ahead)) {
        at = index.load(std::memory_order_relaxed);
      } else {
        return false;
      }
    }
  }

  // Claims up to `wanted` ready slots by moving `index`; returns how many and sets `first`.
  uint64_t claim(Atomic<uint64_t>& index, uint64_t ahead, uint64_t wanted, uint64_t& first) {
    first = index.load(std::memory_order_relaxed);
    for (;;) {
      const uint64_t count = ready(first, ahead, std::min(wanted, slots_));
      if (count == 0) {
        const uint64_t number = ring_[first & mask_].number.load(std::memory_order_acquire);
        if (wanted == 0 || !overtaken(number, first, ahead)) return 0;
        first = index.load(std::memory_order_relaxed);
      } else if (index.compare_exchange_weak(first, first + count, std::memory_order_relaxed)) {
        return count;
      }
    }
  }

  // Not written after construction.
  alignas(limits::kCacheLineBytes) const uint64_t slots_;
  const uint64_t mask_;
  const std::unique_ptr<Slot[]> ring_;
  // The producers' line, then the consumers'.
  alignas(limits::kCacheLineBytes) Atomic<uint64_t> produced_{0};
  alignas(limits::kCacheLineBytes) Atomic<uint64_t> consumed_{0};
};

static_assert(sizeof(MpmcQueue<void*>) == 3 * limits::kCacheLineBytes);

}  // namespace rubato
