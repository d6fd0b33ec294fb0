// SPDX-License-Identifier: Apache-2.0
//
// StdSync: the interface through which the queues access memory that several threads share.
// Programs use StdSync; the tests replace it with testing/model.h, which explores every
// interleaving and every stale value that the C++ memory model permits. The header also holds the
// few things that all queues have in common.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <thread>
#include <type_traits>

#include "base/check.h"
#include "base/limits.h"
#include "mechanism/cpu/pause.h"

namespace rubato {

struct StdSync {
  template <class T>
  using Atomic = std::atomic<T>;

  // Memory that the queue's own protocol keeps from being touched by two threads at once. The model
  // checks the claim.
  template <class T>
  using Plain = T;

  // Sequentially consistent: of two threads that each store, pass it and load what the other has
  // stored, at least one sees the other's store.
  static void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

  // Waits between two reads of a value that another thread is about to change; `tries` reads were
  // in vain.
  static void wait(uint32_t tries) {
    if (tries < kSpins) {
      cpu_pause();
    } else {
      std::this_thread::yield();
    }
  }

 private:
  static constexpr uint32_t kSpins = 64;
};

// Queues carry small trivial values: pointers, and messages of a few lines.
template <class T>
concept QueueItem = std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T> &&
                    sizeof(T) <= size_t{4} * limits::kCacheLineBytes;

// The number of slots for a requested capacity. Requires a power of two, so that an index becomes a
// slot by masking; a queue of one is made to hold two, which MpmcQueue's numbering needs.
inline uint64_t queue_slots(uint32_t capacity) {
  RUBATO_CHECK(std::has_single_bit(capacity));
  return capacity < 2 ? 2 : capacity;
}

// Items between two indices that are read one after the other, each possibly stale. What is put
// or taken in between counts: what was there before is not missed.
template <class Queue>
uint32_t queue_depth(const Queue& queue) {
  const uint64_t consumed = queue.consumed();
  const uint64_t produced = queue.produced();
  return produced > consumed ? static_cast<uint32_t>(produced - consumed) : 0;
}

}  // namespace rubato
