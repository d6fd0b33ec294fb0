// SPDX-License-Identifier: Apache-2.0
//
// OrderedQueue: a bounded queue for any number of producers and consumers that gives the item with
// the smallest key first, among equal keys the item that was put first. It is a binary heap under a
// spin lock, because every put and every take depends on all others.
//
// Thread safety: every method from any thread. Items are copied in and out; the key is read once,
// by put, while the item is the caller's: KeyOf()(item) -> uint64_t.
//
// Memory order, all of it:
//   A  unlock stores locked_ (release)  ->  lock exchanges it (acquire): the heap is as the holder
//      before left it.
// produced_, consumed_ and first_ are written by the holder only and read by all as hints. They
// carry no data and are relaxed; the holder, ordered by A, reads them exactly.
//
// A lock holder that the kernel stops holds up all other threads, which yield after a while.
// Workers are not preempted inside a queue operation by this runtime.
#pragma once

#include <memory>

#include "mechanism/queue/sync.h"

namespace rubato {

template <QueueItem T, class KeyOf, class Sync = StdSync>
class OrderedQueue {
 public:
  using Key = KeyOf;
  static constexpr uint64_t kNoKey = UINT64_MAX;

  // Requires a power of two.
  explicit OrderedQueue(uint32_t capacity)
      : slots_(queue_slots(capacity)),
        heap_(std::make_unique<typename Sync::template Plain<Entry>[]>(slots_)) {}
  OrderedQueue(const OrderedQueue&) = delete;
  OrderedQueue& operator=(const OrderedQueue&) = delete;

  // False = full, nothing was put.
  bool put(T item) {
    const uint64_t key = KeyOf()(item);
    const Lock lock(*this);
    const uint64_t number = produced();
    const uint64_t held = number - consumed();
    RUBATO_DCHECK(held <= slots_);
    if (held == slots_) return false;
    sift_up(held, {key, number, item});
    produced_.store(number + 1, std::memory_order_relaxed);
    show_first(held + 1);
    return true;
  }

  // Takes the first item. False = empty, `item` is untouched.
  bool take(T& item) {
    if (depth() == 0) return false;
    const Lock lock(*this);
    const uint64_t taken = consumed();
    const uint64_t held = produced() - taken;
    if (held == 0) return false;
    item = at(0).item;
    if (held > 1) sift_down(held - 1, at(held - 1));
    consumed_.store(taken + 1, std::memory_order_relaxed);
    show_first(held - 1);
    return true;
  }

  // Hints, exact while no thread puts or takes. first_key: the key of the item that is taken next,
  // kNoKey = empty.
  uint32_t depth() const { return queue_depth(*this); }
  uint64_t first_key() const { return first_.load(std::memory_order_relaxed); }

  // Items ever put and ever taken.
  uint64_t produced() const { return produced_.load(std::memory_order_relaxed); }
  uint64_t consumed() const { return consumed_.load(std::memory_order_relaxed); }
  uint32_t capacity() const { return static_cast<uint32_t>(slots_); }

 private:
  template <class U>
  using Atomic = typename Sync::template Atomic<U>;

  struct Entry {
    uint64_t key = 0;
    uint64_t number = 0;  // of the put
    T item{};

    bool before(const Entry& other) const {
      return key != other.key ? key < other.key : number < other.number;
    }
  };

  class Lock {
   public:
    explicit Lock(OrderedQueue& queue) : locked_(queue.locked_) {
      for (uint32_t tries = 0; taken(); ++tries) Sync::wait(tries);
    }
    Lock(const Lock&) = delete;
    ~Lock() { locked_.store(0, std::memory_order_release); }  // A

   private:
    bool taken() {
      uint32_t expected = 0;
      return !locked_.compare_exchange_strong(expected, 1, std::memory_order_acquire,
                                              std::memory_order_relaxed);  // A
    }
    Atomic<uint32_t>& locked_;
  };

  Entry at(uint64_t place) const { return heap_[place]; }

  // Puts the entry at the free place `place`, or above.
  void sift_up(uint64_t place, Entry entry) {
    while (place > 0) {
      const uint64_t parent = (place - 1) / 2;
      if (!entry.before(at(parent))) break;
      heap_[place] = at(parent);
      place = parent;
    }
    heap_[place] = entry;
  }

  // Puts the entry at the root or below, in a heap of `held`.
  void sift_down(uint64_t held, Entry entry) {
    uint64_t place = 0;
    for (uint64_t child = 1; child < held; child = 2 * place + 1) {
      if (child + 1 < held && at(child + 1).before(at(child))) ++child;
      if (!at(child).before(entry)) break;
      heap_[place] = at(child);
      place = child;
    }
    heap_[place] = entry;
  }

  void show_first(uint64_t held) {
    first_.store(held > 0 ? at(0).key : kNoKey, std::memory_order_relaxed);
  }

  // Not written after construction.
  alignas(limits::kCacheLineBytes) const uint64_t slots_;
  const std::unique_ptr<typename Sync::template Plain<Entry>[]> heap_;
  // The line that threads waiting for the lock read, then the line of the hints.
  alignas(limits::kCacheLineBytes) Atomic<uint32_t> locked_{0};
  alignas(limits::kCacheLineBytes) Atomic<uint64_t> produced_{0};
  Atomic<uint64_t> consumed_{0};
  Atomic<uint64_t> first_{kNoKey};
};

}  // namespace rubato
