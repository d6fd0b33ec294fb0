// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: the threads of one world, and which of them goes on. For the library's own files.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/prng.h"
#include "mechanism/fiber/context.h"
#include "mechanism/fiber/stack.h"
#include "mechanism/preempt/tls_block.h"
#include "virtual/world.h"

namespace rubato::virt {

// A thread of the world. It finds its thread-local storage in a block that is lent to it.
struct VirtualThread {
  Context context;  // valid while another thread runs
  std::unique_ptr<TlsBlock> tls;
  uintptr_t thread_pointer = 0;  // also its pthread_t
  Stack* stack = nullptr;        // null for the first thread
  void* (*start)(void*) = nullptr;
  void* argument = nullptr;
  void* result = nullptr;
  uint32_t number = 0;
  Instant clock;
  Nanos cpu_time;                   // the clock without stalls and waits
  const void* waits_for = nullptr;  // null = it can go on
  bool woken = false;               // the last wait was ended by a wake-up
  bool ended = false;
  bool joined = false;
};

class Scheduler {
 public:
  explicit Scheduler(const WorldOptions& options);
  ~Scheduler();

  // The running thread's world; null outside. Not inlined: a fiber may have moved.
  static Scheduler* here();

  // The calling thread becomes the first; runs `body` and then what the other threads have left.
  WorldReport run(const std::function<void()>& body);

  // Called by the running thread.
  VirtualThread& running() { return *threads_[running_]; }
  void access() {
    ++accesses_;
    if (--until_stall_ == 0) stall();
    advance(draw_price(options_.access));
  }
  void compute(Nanos time) { advance(time); }
  // A step that other threads need not see in order: nothing happens at it.
  void touch(Nanos time) {
    VirtualThread& me = running();
    me.clock = me.clock + time;
    me.cpu_time += time;
  }
  void call() { advance(draw_price(options_.system_call)); }
  void yield();
  Instant read_clock();

  // Waits for wake(what), for the deadline, or for nothing at all (a spurious wake-up). True = it
  // was woken.
  bool wait(const void* what, Instant deadline = Instant::never());
  // Wakes up to `most` of those that wait; the number woken.
  uint32_t wake(const void* what, uint32_t most);
  void sleep_until(Instant due);

  // Null: there are no more stacks or threads.
  VirtualThread* create(void* (*start)(void*), void* argument);
  VirtualThread* find(uintptr_t thread_pointer);
  void* join(VirtualThread& thread);
  [[noreturn]] void end(void* result);

 private:
  static void entry(void* argument);

  Nanos draw_price(Nanos mean) {
    return mean / 2 + Nanos(static_cast<int64_t>(
                          prng_.below(static_cast<uint32_t>(mean.count()) + 1)));
  }
  void advance(Nanos time) {
    VirtualThread& me = running();
    me.clock = me.clock + time;
    me.cpu_time += time;
    if (me.clock >= others_) pass_on(me.clock);
  }
  void stall();
  // The running thread goes on at `next`; never = when it is woken. Another one may run until then.
  void pass_on(Instant next);
  void switch_to(uint32_t number);
  void make_ready(VirtualThread& thread, Instant at);
  [[noreturn]] void fail(const char* what) const;

  const WorldOptions options_;
  Prng prng_;
  StackPool stacks_;
  std::vector<std::unique_ptr<VirtualThread>> threads_;
  std::vector<Instant> next_;  // by thread: when it goes on, unless it is woken before
  uint32_t running_ = 0;
  Instant others_ = Instant::never();  // the earliest of the others
  uint64_t until_stall_ = 0;
  uint64_t accesses_ = 0;
  WorldReport report_;
};

}  // namespace rubato::virt
