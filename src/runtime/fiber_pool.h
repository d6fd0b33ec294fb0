// SPDX-License-Identifier: Apache-2.0
//
// FiberPool: the fibers that run the server loop. One is made when a preempted request keeps the
// fiber it runs on and no parked one is left (Synergy 5.2.2); after that it is reused, suspended
// inside recv(), until the runtime stops. Bounded: make() returns null when all are in use. Owns
// fibers and stacks. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "mechanism/fiber/fiber.h"
#include "mechanism/fiber/stack.h"
#include "mechanism/preempt/tls_block.h"
#include "mechanism/queue/mpmc_queue.h"
#include "runtime/fiber_local.h"

namespace rubato {

struct LoopFiber {
  Fiber fiber;
  void* runtime = nullptr;  // argument of its entry
  // Where requests are interrupted, always; else while it keeps the one that it has waited by.
  std::unique_ptr<TlsBlock> tls;
  FiberLocals locals;
};

class FiberPool {
 public:
  // `TLS blocks`: every fiber gets one, which costs a sleeping thread.
  FiberPool(size_t stack_bytes, uint32_t max_fibers, bool identities = false);
  ~FiberPool();

  // A fresh fiber that will run entry(LoopFiber*); null = max_fibers are in use, or the system has
  // no more threads for TLS blocks.
  LoopFiber* make(FiberEntry entry, void* runtime);

  // A fiber that is suspended inside recv() becomes anybody's. The caller has already left it.
  void park(LoopFiber* fiber);
  LoopFiber* take_parked();

  // The fiber has made its final switch. Its stack can be used again. Not as its TLS block.
  void ended(LoopFiber* fiber);

  // An TLS block to be shared by fibers on one worker, made if there is none to spare; null = the
  // system has no more threads.
  std::unique_ptr<TlsBlock> take_tls();
  void give_tls(std::unique_ptr<TlsBlock> tls);

  uint64_t made() const;
  size_t stack_high_water_bytes() const { return stacks_.high_water_bytes(); }

 private:
  std::unique_ptr<LoopFiber> make_unstarted() const;

  const bool identities_;
  StackPool stacks_;
  MpmcQueue<LoopFiber*> parked_;
  mutable std::mutex mutex_;  // guards those below; not taken to reuse a fiber
  std::vector<std::unique_ptr<LoopFiber>> all_;
  std::vector<std::unique_ptr<TlsBlock>> spare_identities_;
  uint64_t made_ = 0;
};

}  // namespace rubato
