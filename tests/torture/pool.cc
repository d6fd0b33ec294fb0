// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/pool.h"

#include <bit>
#include <thread>
#include <utility>

#include "base/check.h"
#include "mechanism/preempt/unsafe_code.h"
#include "mechanism/preempt/preempt_disable.h"

namespace torture {

struct PoolThread {
  rubato::Context context;
  uintptr_t pointer = 0;
  PoolStats stats;
};

namespace {

constexpr size_t kStackBytes = size_t{256} * 1024;

// The fiber that this TLS block belongs to; null on threads.
[[gnu::tls_model("initial-exec")]] thread_local constinit PoolFiber* t_fiber = nullptr;

[[gnu::noinline]] PoolFiber* running() {
  asm volatile("");
  return t_fiber;
}

[[gnu::noinline]] void set_running(PoolFiber* fiber) {
  asm volatile("");
  t_fiber = fiber;
}

uint64_t draw(PoolFiber& fiber) {
  fiber.random ^= fiber.random << 13;
  fiber.random ^= fiber.random >> 7;
  fiber.random ^= fiber.random << 17;
  return fiber.random;
}

}  // namespace

struct PoolHooks {
  static void slice(PoolFiber& fiber) {
    fiber.blocks_left = 1 + static_cast<int64_t>(draw(fiber) % (2 * fiber.pool->mean_blocks_));
  }

  static void preempt(PoolFiber& fiber) {
    ++fiber.thread->stats.preemptions;
    fiber.pool->leave(fiber);
    slice(fiber);
  }

  // A slice is over.
  static void expired(PoolFiber& fiber) {
    if (!rubato::preemption_disabled()) return preempt(fiber);
    ++fiber.thread->stats.preemption_disabled;
    fiber.blocks_left = INT64_MAX;
    rubato::set_preemption_pending();
  }

  static void region_ended() {
    if (PoolFiber* fiber = running()) preempt(*fiber);
  }

  static bool yield_for_lock() {
    PoolFiber* fiber = running();
    if (fiber == nullptr) return false;
    ++fiber->thread->stats.lock_yields;
    fiber->pool->leave(*fiber);
    return true;
  }
};

Pool::Pool(uint32_t threads, uint32_t fibers, uint32_t mean_blocks, uint64_t seed)
    : mean_blocks_(mean_blocks),
      stacks_(kStackBytes, fibers),
      ready_(std::bit_ceil(fibers)) {
  const rubato::Status safe = rubato::protect_unsafe_code();
  if (!safe.ok()) rubato::check_failed(__FILE__, __LINE__, safe.error().c_str());
  rubato::set_pending_preemption_handler(&PoolHooks::region_ended);
  rubato::set_yield_for_lock(&PoolHooks::yield_for_lock);
  for (uint32_t i = 0; i < threads; ++i) threads_.push_back(std::make_unique<PoolThread>());
  for (uint32_t i = 0; i < fibers; ++i) {
    auto fiber = std::make_unique<PoolFiber>();
    fiber->tls = rubato::TlsBlock::make();
    fiber->stack = stacks_.take();
    RUBATO_CHECK(fiber->tls != nullptr && fiber->stack != nullptr);
    fiber->pool = this;
    fiber->random = (seed + i) * 0x9e3779b97f4a7c15u | 1;
    rubato::context_make(fiber->context, fiber->stack->low, fiber->stack->size_bytes,
                         &Pool::fiber_main, fiber.get());
    RUBATO_CHECK(ready_.put(fiber.get()));
    fibers_.push_back(std::move(fiber));
  }
}

Pool::~Pool() {
  for (auto& fiber : fibers_) stacks_.give(fiber->stack);
  rubato::set_pending_preemption_handler(nullptr);
  rubato::set_yield_for_lock(nullptr);
}

void Pool::run(std::function<bool()> body) {
  body_ = std::move(body);
  alive_ = static_cast<uint32_t>(fibers_.size());
  std::vector<std::thread> running;
  for (auto& thread : threads_) running.emplace_back([this, &thread] { thread_main(*thread); });
  for (std::thread& thread : running) thread.join();
}

PoolStats Pool::stats() const {
  PoolStats all;
  for (const auto& thread : threads_) {
    all.preemptions += thread->stats.preemptions;
    all.preemption_disabled += thread->stats.preemption_disabled;
    all.lock_yields += thread->stats.lock_yields;
    all.moves += thread->stats.moves;
  }
  return all;
}

// Between two fibers a thread is itself; what it took from the queue it alone may touch.
void Pool::thread_main(PoolThread& thread) {
  thread.pointer = rubato::thread_pointer();
  uint64_t told = 0;
  while (alive_.load(std::memory_order_acquire) > 0) {
    PoolFiber* fiber = nullptr;
    if (!ready_.take(fiber)) {
      std::this_thread::yield();
      continue;
    }
    if (fiber->thread != nullptr && fiber->thread != &thread) ++thread.stats.moves;
    fiber->thread = &thread;
    rubato::set_thread_pointer(fiber->tls->pointer());
    rubato_context_switch(&thread.context, &fiber->context);
    preemptions_.fetch_add(thread.stats.preemptions - std::exchange(told, thread.stats.preemptions),
                           std::memory_order_relaxed);
    if (fiber->ended) {
      alive_.fetch_sub(1, std::memory_order_acq_rel);
    } else {
      // A thread that the system has stopped while it takes may hold a slot for a while.
      while (!ready_.put(fiber)) std::this_thread::yield();
    }
  }
}

void Pool::fiber_main(void* argument) {
  auto& fiber = *static_cast<PoolFiber*>(argument);
  set_running(&fiber);
  PoolHooks::slice(fiber);
  while (fiber.pool->body_()) {
  }
  set_running(nullptr);
  fiber.ended = true;
  fiber.pool->leave(fiber);
}

[[gnu::noinline]] void Pool::leave(PoolFiber& fiber) {
  PoolThread& thread = *fiber.thread;
  rubato::set_thread_pointer(thread.pointer);
  rubato_context_switch(&fiber.context, &thread.context);
}

}  // namespace torture

// Called at every basic block of code that was compiled for it.
extern "C" void __sanitizer_cov_trace_pc() {
  torture::PoolFiber* fiber = torture::running();
  if (fiber == nullptr || --fiber->blocks_left > 0) return;
  torture::PoolHooks::expired(*fiber);
}
