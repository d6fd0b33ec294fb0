// SPDX-License-Identifier: Apache-2.0
//
// World: a program's threads in virtual time, all on one thread of the operating system. The code
// is that of production, compiled with -fsanitize=thread and linked with this library in place of
// ThreadSanitizer's: every atomic access then calls the world (instrumentation.cc), as do the calls
// of libc that make threads, lock, wait and read clocks (posix.cc). At each of them another thread
// may go on.
//
// Time. Each thread has a clock of its own, which every access and call advances by a price, drawn
// around the one in WorldOptions. The thread whose clock is the earliest goes on, so accesses take
// effect in the order of time, as on processors that run in parallel; the random prices make the
// interleavings. What one thread does takes effect at once for all others: only sequentially
// consistent executions occur (mechanism/queue/testing/model.h tries the others).
//
// Faults, each drawn from the seed: a thread loses its CPU for a while; a wake-up comes late; a
// wait ends without a wake-up.
//
// The same seed gives the same execution, as long as the program asks nothing else for randomness
// or time. A program whose threads all wait for ever, or that runs past `end`, has failed: the
// world prints the seed and what each thread waits for, and aborts.
//
// Thread safety: one world at a time in a process. The functions below are called within it.
#pragma once

#include <cstdint>
#include <functional>

#include "base/time.h"

namespace rubato::virt {

struct WorldOptions {
  uint64_t seed = 1;
  // Prices, on average.
  Nanos access = Nanos(8);         // an atomic access
  Nanos clock_read = Nanos(20);
  Nanos system_call = Nanos(400);
  Nanos wake_up = Nanos::micros(3);  // from the call that wakes to the first step of the woken

  // A fault happens at one in so many accesses or waits; 0 = never.
  uint32_t stall_one_in = 0;  // accesses
  Nanos stall_least = Nanos::micros(10);
  Nanos stall_most = Nanos::millis(50);
  uint32_t late_wake_up_one_in = 0;
  Nanos late_most = Nanos::millis(1);
  uint32_t spurious_wake_up_one_in = 0;

  Nanos end = Nanos::seconds(600);  // of virtual time: the program hangs
};

struct WorldReport {
  Instant ended;           // on the clock of the first thread
  uint64_t accesses = 0;
  uint64_t switches = 0;   // from one thread to another
  uint64_t threads = 0;    // that there have been
  uint64_t stalls = 0;
  uint64_t digest = 0;     // of which thread ran when: equal for equal executions
};

// Runs `body` as the first thread of a new world. Returns when all threads of the world have ended.
WorldReport run(const WorldOptions& options, const std::function<void()>& body);

// True on a thread of a world.
bool within();

// The calling thread computes for so long.
void spend(Nanos time);

}  // namespace rubato::virt
