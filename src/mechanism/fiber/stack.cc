// SPDX-License-Identifier: Apache-2.0
#include "mechanism/fiber/stack.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "mechanism/fiber/context.h"
#include "mechanism/fiber/overflow.h"
#include "mechanism/fiber/sanitizer.h"

namespace rubato {
namespace {

size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Stacks lie a whole number of pages apart, so without an offset the hot frames of all fibers
// would compete for the same few sets of the first-level cache. Moving each top down by a multiple
// of some lines ("colouring") spreads them.
size_t colour_bytes(uint32_t index) { return (index % kStackColours) * kStackColourBytes; }

// A small pool must not end up in one worker's cache.
uint32_t batch_for(uint32_t capacity) { return std::clamp(capacity / 16, 1u, kStackBatch); }

// Address space that nobody may touch yet; null = there is no room.
std::byte* reserve(size_t bytes) {
  void* region = mmap(nullptr, bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  return region != MAP_FAILED ? static_cast<std::byte*>(region) : nullptr;
}

// A sanitizer's frames are larger; a stack that is large anyway has room for them.
size_t with_sanitizer(size_t bytes) {
  constexpr size_t kEnough = size_t{16} << 20;
  return std::max(bytes, std::min(bytes * sanitizer::kStackFactor, kEnough));
}

}  // namespace

StackPool::StackPool(size_t stack_size_bytes, uint32_t capacity)
    : page_bytes_(page_size()),
      stack_bytes_(round_up(with_sanitizer(stack_size_bytes), page_size())),
      capacity_(capacity),
      stacks_(std::make_unique<Stack[]>(capacity)) {
  static_assert(kStackColours * kStackColourBytes <= 4096);
  RUBATO_CHECK(capacity > 0);
  RUBATO_CHECK(stack_size_bytes >= kStackColours * kStackColourBytes + kContextStackMin);
  region_ = reserve(stride_bytes() * capacity_);
  if (region_ == nullptr) reserve_less();
  if (region_ == nullptr) return;
  // A huge page would make a whole stack resident at its first byte.
  static_cast<void>(madvise(region_, stride_bytes() * capacity_, MADV_NOHUGEPAGE));
  note_stack_region({reinterpret_cast<uintptr_t>(region_), stride_bytes(), kStackGuardBytes,
                     capacity_});
}

StackPool::~StackPool() {
  RUBATO_CHECK(caches_ == nullptr);
  if (region_ == nullptr) return;
  forget_stack_region(reinterpret_cast<uintptr_t>(region_));
  sanitizer::forget_stack(region_, stride_bytes() * carved_);
  RUBATO_CHECK(munmap(region_, stride_bytes() * capacity_) == 0);
}

size_t StackPool::stride_bytes() const { return kStackGuardBytes + stack_bytes_; }

// Half of what there is room for, as the rest of the process needs some too.
void StackPool::reserve_less() {
  while (capacity_ > 1 && region_ == nullptr) {
    capacity_ /= 2;
    region_ = reserve(stride_bytes() * capacity_);
  }
  if (region_ == nullptr || capacity_ == 1) return;
  RUBATO_CHECK(munmap(region_ + stride_bytes() * (capacity_ / 2),
                      stride_bytes() * (capacity_ - capacity_ / 2)) == 0);
  capacity_ /= 2;
}

// The next stack that was never used, or null. Requires the lock.
Stack* StackPool::carve() {
  if (region_ == nullptr || carved_ == capacity_) return nullptr;
  std::byte* low = region_ + carved_ * stride_bytes() + kStackGuardBytes;
  if (mprotect(low, stack_bytes_, PROT_READ | PROT_WRITE) != 0) return nullptr;
  Stack* stack = &stacks_[carved_];
  *stack = {low, stack_bytes_ - colour_bytes(carved_), nullptr};
  ++carved_;
  return stack;
}

uint32_t StackPool::refill(uint32_t wanted, Stack*& list) {
  const std::lock_guard lock(mutex_);
  uint32_t count = 0;
  list = nullptr;
  while (count < wanted) {
    Stack* stack = free_;
    if (stack != nullptr) {
      free_ = stack->next;
      --free_count_;
    } else if ((stack = carve()) == nullptr) {
      break;
    }
    stack->next = list;
    list = stack;
    ++count;
  }
  out_max_ = std::max(out_max_, carved_ - free_count_);
  return count;
}

void StackPool::put_back(Stack* list, uint32_t count) {
  const std::lock_guard lock(mutex_);
  while (list != nullptr) {
    Stack* stack = list;
    list = stack->next;
    stack->next = free_;
    free_ = stack;
  }
  free_count_ += count;
}

Stack* StackPool::take() {
  Stack* stack = nullptr;
  if (refill(1, stack) == 0) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  stack->next = nullptr;
  const std::lock_guard lock(mutex_);
  ++direct_in_use_;
  return stack;
}

void StackPool::give(Stack* stack) {
  RUBATO_DCHECK(stack != nullptr && stack->next == nullptr);
  put_back(stack, 1);
  const std::lock_guard lock(mutex_);
  --direct_in_use_;
}

void StackPool::attach(StackCache& cache) {
  const std::lock_guard lock(mutex_);
  cache.next_ = caches_;
  if (caches_ != nullptr) caches_->previous_ = &cache;
  caches_ = &cache;
}

void StackPool::detach(StackCache& cache) {
  const std::lock_guard lock(mutex_);
  direct_in_use_ += cache.in_use_.load(std::memory_order_relaxed);
  (cache.previous_ != nullptr ? cache.previous_->next_ : caches_) = cache.next_;
  if (cache.next_ != nullptr) cache.next_->previous_ = cache.previous_;
}

uint32_t StackPool::in_use() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = direct_in_use_;
  for (const StackCache* cache = caches_; cache != nullptr; cache = cache->next_) {
    sum += cache->in_use_.load(std::memory_order_relaxed);
  }
  return static_cast<uint32_t>(std::clamp<int64_t>(sum, 0, capacity_));
}

uint32_t StackPool::in_use_max() const {
  const std::lock_guard lock(mutex_);
  return out_max_;
}

// Lets `residency`, with a byte for each page of a stack, tell which are resident. False if the
// kernel does not.
bool StackPool::look_at_pages(uint32_t index, std::vector<unsigned char>& residency) const {
  std::byte* low = region_ + index * stride_bytes() + kStackGuardBytes;
  residency.resize(stack_bytes_ / page_bytes_);
  return mincore(low, stack_bytes_, residency.data()) == 0;
}

// The bytes from the top of the stack down to the deepest page that is resident. `residency` is
// room for a look at the pages.
size_t StackPool::touched_bytes(uint32_t index, std::vector<unsigned char>& residency) const {
  if (!look_at_pages(index, residency)) return 0;
  const size_t pages = residency.size();
  size_t deepest = 0;
  while (deepest < pages && (residency[deepest] & 1) == 0) ++deepest;
  const size_t from_region_top = (pages - deepest) * page_bytes_;
  const size_t colour = colour_bytes(index);
  return from_region_top > colour ? from_region_top - colour : 0;
}

uint32_t StackPool::carved() const {
  const std::lock_guard lock(mutex_);
  return carved_;
}

size_t StackPool::high_water_bytes() const {
  const uint32_t all = carved();
  std::vector<unsigned char> residency;
  size_t deepest = 0;
  for (uint32_t i = 0; i < all; ++i) deepest = std::max(deepest, touched_bytes(i, residency));
  return deepest;
}

size_t StackPool::resident_bytes() const {
  const uint32_t all = carved();
  std::vector<unsigned char> residency;
  size_t pages = 0;
  for (uint32_t i = 0; i < all; ++i) {
    if (!look_at_pages(i, residency)) return 0;
    pages += static_cast<size_t>(std::count_if(residency.begin(), residency.end(),
                                               [](unsigned char page) { return (page & 1) != 0; }));
  }
  return pages * page_bytes_;
}

// The page in use stays, and that of the red zone below the stack pointer.
void release_unused(const Stack& stack, const void* used) {
  constexpr uintptr_t kRedZone = 128;
  const auto low = reinterpret_cast<uintptr_t>(stack.low);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(used) - kRedZone) / page_size() * page_size();
  RUBATO_DCHECK(end >= low && end <= low + stack.size_bytes);
  if (end > low) static_cast<void>(madvise(stack.low, end - low, MADV_DONTNEED));
}

StackCache::StackCache(StackPool& pool) : pool_(pool), batch_(batch_for(pool.capacity())) {
  pool_.attach(*this);
}

StackCache::~StackCache() {
  pool_.put_back(idle_, idle_count_);
  pool_.detach(*this);
}

Stack* StackCache::take() {
  if (idle_ == nullptr) idle_count_ = pool_.refill(batch_, idle_);
  Stack* stack = idle_;
  if (stack == nullptr) {
    pool_.refused_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  idle_ = stack->next;
  RUBATO_DCHECK(idle_count_ > 0);
  --idle_count_;
  stack->next = nullptr;
  in_use_.store(in_use_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return stack;
}

void StackCache::give(Stack* stack) {
  RUBATO_DCHECK(stack != nullptr && stack->next == nullptr);
  stack->next = idle_;
  idle_ = stack;
  ++idle_count_;
  in_use_.store(in_use_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  if (idle_count_ <= 2 * batch_) return;
  // The newest stay: their lines are still in this core's cache. The older half goes.
  Stack* last_kept = idle_;
  for (uint32_t kept = 1; kept < batch_; ++kept) last_kept = last_kept->next;
  Stack* surplus = last_kept->next;
  last_kept->next = nullptr;
  pool_.put_back(surplus, idle_count_ - batch_);
  idle_count_ = batch_;
}

}  // namespace rubato
