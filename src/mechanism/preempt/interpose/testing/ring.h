// SPDX-License-Identifier: Apache-2.0
//
// Ring: fibers that take turns on one thread, each with a TLS block of its own, for tests of the
// interposers: a call that blocks the thread blocks all fibers and the test. A fiber gives its turn
// away in yield_for_lock, which the interposers call, or in Ring::yield. The Ring attaches the
// interposers. One Ring at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "mechanism/fiber/fiber.h"
#include "mechanism/preempt/tls_block.h"
#include "mechanism/preempt/interposed.h"

namespace rubato::testing {

class Ring {
 public:
  Ring();
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  void add(std::function<void()> body);

  // Returns when all bodies have returned.
  void run();

  // Switches to the next fiber; returns when this fiber has its turn again, perhaps at once.
  static void yield();

  // The number of times a fiber has found a lock taken, or waited.
  uint64_t lock_yields() const { return lock_yields_; }

 private:
  struct Member {
    Context context;
    std::unique_ptr<TlsBlock> tls;
    uintptr_t pointer = 0;
    Stack* stack = nullptr;
    std::function<void()> body;
    bool ended = false;
  };

  static void entry(void* argument);
  static bool yield_for_lock();
  void switch_to(Member& from, Member& to);
  Member& next();

  StackPool stacks_{256 * 1024, 64};
  Member thread_;
  std::vector<std::unique_ptr<Member>> members_;
  size_t running_ = 0;
  uint64_t lock_yields_ = 0;
};

}  // namespace rubato::testing
