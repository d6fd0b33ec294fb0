// SPDX-License-Identifier: Apache-2.0
//
// StackPool: the stacks of all fibers of a process, and StackCache: one worker's share of the idle
// ones. Every stack has inaccessible guard pages below it, so that an overflow, even by an array of
// some 100 KiB, faults instead of corrupting a neighbour (fiber/overflow.h reports it). Memory is
// reserved as a whole but becomes resident page by page, when a stack is first used that deep; an
// idle stack keeps what it has touched.
//
// Thread safety: every method of StackPool may be called from any thread. A StackCache belongs to
// one worker: take and give only there. A stack may be given back on a worker other than the one
// that took it. Ownership: the pool owns the stacks and must outlive its caches and all fibers on
// its stacks.
//
// Bounds: `capacity` stacks; when none is left, take() returns null and the refusal is counted. Up
// to kStackCacheMax idle stacks rest in each cache, out of reach of the other workers, so the
// capacity must leave that much room. Each stack is two memory mappings; Linux allows 65,530 per
// process (vm.max_map_count), so about 32,000 stacks; a mapping that the kernel refuses is refused
// and counted like a full pool.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/limits.h"

namespace rubato {

inline constexpr size_t kStackDefaultBytes = size_t{16} << 20;
inline constexpr size_t kStackGuardBytes = size_t{256} * 1024;
inline constexpr uint32_t kStackBatch = 8;  // moved per visit to the pool
inline constexpr uint32_t kStackCacheMax = 2 * kStackBatch;  // idle stacks in one cache
inline constexpr uint32_t kStackColours = 16;  // offsets of stack tops
inline constexpr size_t kStackColourBytes = 4 * limits::kCacheLineBytes;

// A stack that is taken. All members are fixed for the life of the pool, except `next`, which the
// holder of the stack may use to link it.
struct Stack {
  std::byte* low = nullptr;  // the lowest usable byte; the guard page ends here
  size_t size_bytes = 0;
  Stack* next = nullptr;
};

// Gives back to the kernel what a stack has in memory below `used`, the stack pointer of a fiber on
// it that is suspended, down to its lowest byte. The pages are zeros when they are used again.
void release_unused(const Stack& stack, const void* used);

class StackCache;

class StackPool {
 public:
  // Each stack is stack_size_bytes rounded up to pages, of which up to 4 KiB at the top are left
  // out to spread the stacks over cache sets; up to four times as much under a sanitizer. If there
  // is no address space for all, there are as many as half of it has room for.
  explicit StackPool(size_t stack_size_bytes = kStackDefaultBytes, uint32_t capacity = 1024);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  // A stack straight from the shared list, under its lock: for callers that need few and have no
  // cache. Null if the pool is exhausted, which is counted.
  Stack* take();

  // `stack` came from this pool or one of its caches, and nothing runs on it.
  void give(Stack* stack);

  uint32_t capacity() const { return capacity_; }

  // Stacks taken and not yet given back, over all caches. A snapshot: exact while no thread takes
  // or gives a stack.
  uint32_t in_use() const;

  // The most stacks that were ever out of the shared list at once: in use or idle in a cache.
  // Compare this figure with capacity(); in_use() never exceeded it.
  uint32_t in_use_max() const;

  // Calls of take() answered with null.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

  // How deep any stack has been used since the pool was made, in bytes, rounded up to pages. The
  // kernel tells which pages were ever touched, so no stack is painted and take() costs nothing
  // extra, but the call itself costs about a microsecond per stack. 0 if the kernel does not tell.
  size_t high_water_bytes() const;

  // What all stacks have in memory, in use or idle, at the same price. 0 if the kernel does not
  // tell.
  size_t resident_bytes() const;

 private:
  friend class StackCache;

  void reserve_less();
  Stack* carve();
  size_t stride_bytes() const;
  uint32_t carved() const;
  bool look_at_pages(uint32_t index, std::vector<unsigned char>& residency) const;
  size_t touched_bytes(uint32_t index, std::vector<unsigned char>& residency) const;
  void attach(StackCache& cache);
  void detach(StackCache& cache);
  // Fills `list` with up to `wanted` stacks and returns their number.
  uint32_t refill(uint32_t wanted, Stack*& list);
  void put_back(Stack* list, uint32_t count);

  const size_t page_bytes_;
  const size_t stack_bytes_;  // whole pages, without the guard
  uint32_t capacity_;  // fixed after construction
  std::byte* region_ = nullptr;
  std::unique_ptr<Stack[]> stacks_;
  std::atomic<uint64_t> refused_{0};

  mutable std::mutex mutex_;  // guards all below
  Stack* free_ = nullptr;
  uint32_t free_count_ = 0;
  uint32_t carved_ = 0;  // stacks made accessible so far, a prefix of stacks_
  uint32_t out_max_ = 0;
  int64_t direct_in_use_ = 0;  // taken minus given past the live caches
  StackCache* caches_ = nullptr;
};

class StackCache {
 public:
  explicit StackCache(StackPool& pool);
  // Gives all idle stacks back to the pool.
  ~StackCache();
  StackCache(const StackCache&) = delete;
  StackCache& operator=(const StackCache&) = delete;

  // The most recently given stack, which is the warmest. Null if the pool is exhausted, which is
  // counted. Takes the pool's lock once per batch of stacks at most.
  Stack* take();

  // `stack` came from a cache of the same pool and nothing runs on it.
  void give(Stack* stack);

 private:
  friend class StackPool;

  StackPool& pool_;
  const uint32_t batch_;
  Stack* idle_ = nullptr;
  uint32_t idle_count_ = 0;
  // Taken minus given here; negative where fibers that were started elsewhere finish. Written by
  // the owner, read by in_use() from any thread; a figure of its own, so relaxed.
  std::atomic<int64_t> in_use_{0};
  StackCache* next_ = nullptr;      // guarded by the pool's mutex
  StackCache* previous_ = nullptr;  // guarded by the pool's mutex
};

}  // namespace rubato
