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
#include "mechanism/queue/mpmc_queue.h"

namespace rubato {

struct LoopFiber {
  Fiber fiber;
  void* runtime = nullptr;  // argument of its entry
};

class FiberPool {
 public:
  FiberPool(size_t stack_bytes, uint32_t max_fibers);
  ~FiberPool();

  // A fresh fiber that will run entry(LoopFiber*); null = max_fibers are in use.
  LoopFiber* make(FiberEntry entry, void* runtime);

  // A fiber that is suspended inside recv() becomes anybody's. The caller has already left it.
  void park(LoopFiber* fiber);
  LoopFiber* take_parked();

  // The fiber has made its final switch. Its stack can be used again.
  void ended(LoopFiber* fiber);

  uint64_t made() const;
  size_t stack_high_water_bytes() const { return stacks_.high_water_bytes(); }

 private:
  StackPool stacks_;
  MpmcQueue<LoopFiber*> parked_;
  mutable std::mutex mutex_;  // guards the two below; taken only to make and end fibers
  std::vector<std::unique_ptr<LoopFiber>> all_;
  uint64_t made_ = 0;
};

}  // namespace rubato
