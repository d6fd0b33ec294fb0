// SPDX-License-Identifier: Apache-2.0
//
// Ring: fibers that take turns on one thread, each with a TLS block of its own, for tests of the
// interposers: whatever blocks the thread blocks all of them, and the test with them. A fiber gives
// its turn away in yield_for_lock, which the interposers call, or in Ring::yield. Attaches the
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

  // Until all bodies have returned.
  void run();

  // To the next fiber; returns when it is this one's turn again. May be the same moment.
  static void yield();

  // How often a fiber has found a lock taken, or waited.
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
