// SPDX-License-Identifier: Apache-2.0
//
// TlsReserve: TLS blocks for the fibers of a runtime, made ahead by a thread of its own. A worker
// cannot make one: pthread_create waits for a lock of the loader, which a suspended request may
// hold that only this worker can resume. So it takes one that is ready, or waits a bounded time
// for the thread, and else does without. That thread may wait for the loader as long as it takes.
//
// Thread safety: start() and the destructor on one thread, the others on any, at any time.
#pragma once

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
  // made one.
  static constexpr Nanos kWait = Nanos::millis(10);

  // Keeps `ahead` blocks ready, at least 1, made on the thread by `make`, which answers null if it
  // cannot.
  TlsReserve(uint32_t ahead, Make make);
  // Does not wait for a thread that is held up inside `make`.
  ~TlsReserve();
  TlsReserve(const TlsReserve&) = delete;
  TlsReserve& operator=(const TlsReserve&) = delete;

  // Starts the thread. Again: nothing. False: the system has no more threads.
  bool start();

  // Null: the system has no more threads, or the one that makes them is held up.
  std::unique_ptr<TlsBlock> take();

  // One that the calling thread makes, which no request waits for. Null: the system has no more
  // threads.
  std::unique_ptr<TlsBlock> make();

  // A block that no fiber uses any more, for the next take().
  void give(std::unique_ptr<TlsBlock> block);

 private:
  struct State;
  static void keep_ready(State& state);

  const std::shared_ptr<State> state_;  // the thread's too, which may end later
  std::thread thread_;
};

}  // namespace rubato
