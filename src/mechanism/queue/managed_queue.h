// SPDX-License-Identifier: Apache-2.0
//
// ManagedQueue: a bounded FIFO that any thread puts into and one consumer at a time takes from, at
// either end: the queue of a group of workers, whose manager hands out at the head and sends on
// from the tail.
//
// Thread safety: put, depth, produced, consumed from any thread; take and take_tail by one thread
// at a time, each of which must have synchronised with the one before (a lock, a flag).
//
// New items go to an MpmcQueue; the taker moves them to a ring of its own only when it takes from
// the tail. Items in the ring are older than items in the MpmcQueue. Memory order: that of
// MpmcQueue between producers and taker; the ring is the taker's alone; taken_ is a hint and
// relaxed.
#pragma once

#include <memory>

#include "mechanism/queue/mpmc_queue.h"
#include "mechanism/queue/sync.h"

namespace rubato {

template <QueueItem T, class Sync = StdSync>
class ManagedQueue {
 public:
  // Requires a power of two. Holds up to twice as many while the ring is in use.
  explicit ManagedQueue(uint32_t capacity)
      : fresh_(capacity),
        slots_(queue_slots(capacity)),
        mask_(slots_ - 1),
        ring_(std::make_unique<typename Sync::template Plain<T>[]>(slots_)) {}

  // False = full.
  bool put(T item) { return fresh_.put(item); }

  // The oldest item. False = empty, or its producer has not finished.
  bool take(T& item) {
    if (first_ != end_) {
      item = ring_[first_++ & mask_];
    } else if (!fresh_.take(item)) {
      return false;
    }
    count();
    return true;
  }

  // Takes the newest item whose put is complete. Of more than capacity() items it takes the newest
  // of the oldest capacity() ones.
  bool take_tail(T& item) {
    for (T next; end_ - first_ < slots_ && fresh_.take(next);) ring_[end_++ & mask_] = next;
    RUBATO_DCHECK(end_ - first_ <= slots_);
    if (first_ == end_) return false;
    item = ring_[--end_ & mask_];
    count();
    return true;
  }

  // Hints, exact while no thread puts or takes.
  uint32_t depth() const { return queue_depth(*this); }
  uint64_t produced() const { return fresh_.produced(); }
  uint64_t consumed() const { return taken_.load(std::memory_order_relaxed); }
  uint32_t capacity() const { return fresh_.capacity(); }

 private:
  void count() { taken_.store(consumed() + 1, std::memory_order_relaxed); }

  MpmcQueue<T, Sync> fresh_;
  const uint64_t slots_;
  const uint64_t mask_;
  const std::unique_ptr<typename Sync::template Plain<T>[]> ring_;
  uint64_t first_ = 0;
  uint64_t end_ = 0;
  typename Sync::template Atomic<uint64_t> taken_{0};
};

}  // namespace rubato
