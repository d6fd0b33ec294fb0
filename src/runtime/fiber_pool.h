// SPDX-License-Identifier: Apache-2.0
//
// FiberPool: the fibers that run the server loop. A fiber is made when a preempted request keeps
// the fiber it runs on and no parked fiber is left (Synergy 5.2.2); after that the fiber is reused,
// suspended inside recv(), until the runtime stops. Bounded: make() returns null when all are in
// use. Owns fibers and stacks. Any thread.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "mechanism/fiber/fiber.h"
#include "mechanism/fiber/stack.h"
#include "mechanism/preempt/tls_block.h"
#include "mechanism/queue/mpmc_queue.h"
#include "runtime/fiber_local.h"
#include "runtime/tls_reserve.h"

namespace rubato {

struct LoopFiber {
  // Gives back what its stack has in memory below what it uses. It is parked, and the caller's.
  void release_unused_stack() const {
    release_unused(*fiber.stack, stack_pointer(fiber.context));
  }

  Fiber fiber;
  void* runtime = nullptr;  // argument of its entry
  // Where requests are interrupted, set always; otherwise only while the fiber keeps the TLS block
  // in which it was suspended.
  std::unique_ptr<TlsBlock> tls;
  // Where requests are interrupted, once it has been left: the signals that it blocks, and the
  // alternate signal stack that its request has set.
  std::optional<sigset_t> blocked_signals;
  std::optional<stack_t> signal_stack;
  FiberLocals locals;
  uint64_t releases = 0;  // FiberPool::releases() when its stack was given back last
};

class FiberPool {
 public:
  // `with_tls`: every fiber gets a TLS block, which costs a sleeping thread.
  FiberPool(size_t stack_bytes, uint32_t max_fibers, bool with_tls = false);
  ~FiberPool();

  // Before the first make() of a pool `with_tls` and the first take_tls(), on a thread that is not
  // bound to the CPU of a worker. Again: nothing. False: the system has no more threads.
  bool start_tls_reserve() { return tls_.start(); }

  // A fresh fiber that will run entry(LoopFiber*); null = max_fibers are in use, or there is no TLS
  // block for it (TlsReserve::take).
  LoopFiber* make(FiberEntry entry, void* runtime);

  // Makes a fiber that is suspended inside recv() available to every worker. The caller has already
  // left the fiber.
  void park(LoopFiber* fiber);
  LoopFiber* take_parked();

  // The fiber has made its final switch. Its stack can be used again. The caller must not run on
  // the fiber's TLS block.
  void ended(LoopFiber* fiber);

  // A TLS block to be shared by the fibers of one worker, or null: TlsReserve::take.
  std::unique_ptr<TlsBlock> take_tls() { return tls_.take(); }
  void give_tls(std::unique_ptr<TlsBlock> tls) { tls_.give(std::move(tls)); }
  TlsReserve& tls_reserve() { return tls_; }

  uint64_t made() const;
  // Fibers that have not ended: none, once the workers have stopped in order.
  size_t unfinished() const;
  size_t stack_high_water_bytes() const { return stacks_.high_water_bytes(); }
  // What the stacks have in memory.
  size_t stack_resident_bytes() const { return stacks_.resident_bytes(); }
  // Gives back what the stacks of parked fibers have in memory but do not use. Takes a system call
  // for each. Workers do so for those that they keep, when they next park them.
  void release_parked();
  // How often that was called. A figure that guards nothing: relaxed.
  uint64_t releases() const { return releases_.load(std::memory_order_relaxed); }

 private:
  const bool with_tls_;
  TlsReserve tls_;
  StackPool stacks_;
  MpmcQueue<LoopFiber*> parked_;
  std::atomic<uint64_t> releases_{0};
  mutable std::mutex mutex_;  // guards the members below; not taken to reuse a fiber
  std::vector<std::unique_ptr<LoopFiber>> all_;
  uint64_t made_ = 0;
};

}  // namespace rubato
