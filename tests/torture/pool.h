// SPDX-License-Identifier: Apache-2.0
//
// Pool: fibers with TLS blocks of their own on a few threads, which are preempted after a random
// number of basic blocks of code that was compiled with -fsanitize-coverage=trace-pc, and go on on
// whichever thread comes next. A preemption costs a tenth of a microsecond, so that there can be
// many. It takes non-preemptible regions and interposers as the runtime does. One Pool at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "mechanism/fiber/context.h"
#include "mechanism/fiber/stack.h"
#include "mechanism/preempt/tls_block.h"
#include "mechanism/queue/mpmc_queue.h"

namespace torture {

struct PoolThread;

struct PoolFiber {
  rubato::Context context;
  std::unique_ptr<rubato::TlsBlock> tls;
  rubato::Stack* stack = nullptr;
  class Pool* pool = nullptr;
  PoolThread* thread = nullptr;  // that it runs on
  uint64_t random = 1;
  int64_t blocks_left = 0;
  bool ended = false;
};

struct PoolStats {
  uint64_t preemptions = 0;
  uint64_t preemption_disabled = 0;   // of these, put off to the end of a non-preemptible region
  uint64_t lock_yields = 0;
  uint64_t moves = 0;        // resumed on another thread than before
};

class Pool {
 public:
  // `mean_blocks`: a slice lasts 1 .. 2 * mean_blocks basic blocks.
  Pool(uint32_t threads, uint32_t fibers, uint32_t mean_blocks, uint64_t seed);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Every fiber runs `body` again and again until it returns false; then all ends.
  void run(std::function<bool()> body);

  // Any thread.
  uint64_t preemptions() const { return preemptions_.load(std::memory_order_relaxed); }

  // After run().
  PoolStats stats() const;

 private:
  friend struct PoolHooks;
  void thread_main(PoolThread& thread);
  static void fiber_main(void* argument);
  void leave(PoolFiber& fiber);

  const uint32_t mean_blocks_;
  rubato::StackPool stacks_;
  rubato::MpmcQueue<PoolFiber*> ready_;
  std::vector<std::unique_ptr<PoolFiber>> fibers_;
  std::vector<std::unique_ptr<PoolThread>> threads_;
  std::function<bool()> body_;
  std::atomic<uint32_t> alive_{0};
  std::atomic<uint64_t> preemptions_{0};
};

}  // namespace torture
