// SPDX-License-Identifier: Apache-2.0
//
// TlsReserve: TLS blocks for the fibers of a runtime, some of them made ahead by a thread of its
// own. While a request is left inside libc, because it waits for a lock or is stuck, a worker
// cannot make one: pthread_create waits for a lock of the loader, which that request may hold, and
// maybe only this worker can resume it. So it takes one that is ready, or waits a bounded time for
// the thread, and else does without. That thread may wait for the loader as long as it takes.
//
// Thread safety: start() and the destructor on one thread, the others on any, at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "base/time.h"
#include "mechanism/preempt/tls_block.h"

namespace rubato {

class TlsReserve {
 public:
  using Make = std::function<std::unique_ptr<TlsBlock>()>;

  // How long take() waits where none is ready, after which it no longer waits until the thread has
  // made one. As long as a thread may be without a CPU.
  static constexpr Nanos kWait = Nanos::millis(500);

  // Keeps `ahead` blocks ready, at least 1, made on the thread by `make`, which answers null if it
  // cannot.
  TlsReserve(uint32_t ahead, Make make);
  // Does not wait for a thread that is held up inside `make`.
  ~TlsReserve();
  TlsReserve(const TlsReserve&) = delete;
  TlsReserve& operator=(const TlsReserve&) = delete;

  // Starts the thread. Again: nothing. False: the system has no more threads.
  bool start();

  // One that is ready or, where there is none, that is made by the caller or, if a request is left
  // inside, by the thread. Null: the system has no more threads, or that one is held up.
  std::unique_ptr<TlsBlock> take();

  // While it exists, a request is or may soon be left for a lock. Relaxed: the worker that leaves
  // it sees that itself, and another one that does not can wait, since this one goes on.
  class LeftInside {
   public:
    explicit LeftInside(TlsReserve& reserve) : count_(reserve.left_inside_) {
      count_.fetch_add(1, std::memory_order_relaxed);
    }
    ~LeftInside() { count_.fetch_sub(1, std::memory_order_relaxed); }
    LeftInside(const LeftInside&) = delete;
    LeftInside& operator=(const LeftInside&) = delete;

   private:
    std::atomic<uint32_t>& count_;
  };

  // A block that no fiber uses any more, for the next take().
  void give(std::unique_ptr<TlsBlock> block);

 private:
  struct State;
  static void keep_ready(State& state);
  std::unique_ptr<TlsBlock> take_from_thread();

  std::atomic<uint32_t> left_inside_{0};
  const std::shared_ptr<State> state_;  // the thread's too, which may end later
  std::thread thread_;
};

}  // namespace rubato
