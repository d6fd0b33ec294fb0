// SPDX-License-Identifier: Apache-2.0
#include "runtime/fiber_pool.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "runtime/current_worker.h"

namespace rubato {
namespace {

// Each is a thread that sleeps. A request that waits for the loader, while these cannot be made,
// takes one; where fibers share them, only a few requests at a time do.
constexpr uint32_t kTlsAhead = 16;
constexpr uint32_t kSharedTlsAhead = 4;

// The ending thread of a TLS block was never a worker's, even if its fiber ran on one.
void forget_worker() { set_current_worker(nullptr); }

TlsReserve::Make maker(ThreadKind kind) {
  return [kind] { return TlsBlock::make(&forget_worker, kind); };
}

}  // namespace

FiberPool::FiberPool(size_t stack_bytes, uint32_t max_fibers, bool with_tls)
    : with_tls_(with_tls),
      tls_(std::min(with_tls ? kTlsAhead : kSharedTlsAhead, max_fibers),
           maker(with_tls ? ThreadKind::kOwnsTls : ThreadKind::kBorrowsTls)),
      stacks_(stack_bytes, max_fibers),
      parked_(std::bit_ceil(max_fibers)) {}

FiberPool::~FiberPool() {
  // Fibers that are left were abandoned at a forced stop, with a request half done: they cannot be
  // unwound, and their stacks go with the pool.
  for (auto& loop : all_) fiber_finish(loop->fiber);
}

LoopFiber* FiberPool::make(FiberEntry entry, void* runtime) {
  Stack* stack = stacks_.take();
  if (stack == nullptr) return nullptr;
  auto fresh = std::make_unique<LoopFiber>();
  if (with_tls_) fresh->tls = tls_.take();  // takes long: not under the lock
  if (with_tls_ && fresh->tls == nullptr) {
    stacks_.give(stack);
    return nullptr;
  }
  std::scoped_lock lock(mutex_);
  all_.push_back(std::move(fresh));
  LoopFiber* loop = all_.back().get();
  loop->runtime = runtime;
  fiber_start(loop->fiber, stack, entry, loop);
  ++made_;
  return loop;
}

void FiberPool::park(LoopFiber* fiber) {
  // The queue holds as many as the pool can make, so there is room.
  RUBATO_CHECK(parked_.put(fiber));
}

LoopFiber* FiberPool::take_parked() {
  LoopFiber* fiber = nullptr;
  return parked_.take(fiber) ? fiber : nullptr;
}

// One at a time, so that workers find the others.
void FiberPool::release_parked() {
  releases_.fetch_add(1, std::memory_order_relaxed);
  for (uint64_t left = unfinished(); left > 0; --left) {
    LoopFiber* const loop = take_parked();
    if (loop == nullptr) return;
    loop->release_unused_stack();
    park(loop);
  }
}

void FiberPool::ended(LoopFiber* fiber) {
  std::unique_ptr<LoopFiber> end;  // outside of the lock: its TLS block's thread is waited for
  std::scoped_lock lock(mutex_);
  fiber_finish(fiber->fiber);
  stacks_.give(fiber->fiber.stack);
  const auto it = std::find_if(all_.begin(), all_.end(),
                               [fiber](const auto& owned) { return owned.get() == fiber; });
  RUBATO_CHECK(it != all_.end());
  end = std::move(*it);
  all_.erase(it);
}

uint64_t FiberPool::made() const {
  std::scoped_lock lock(mutex_);
  return made_;
}

size_t FiberPool::unfinished() const {
  std::scoped_lock lock(mutex_);
  return all_.size();
}

}  // namespace rubato
