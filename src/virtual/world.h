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
// wait ends without a wake-up; the clock jumps forward for all threads; there is no memory; those
// of the network.
//
// Network. Sockets, epolls and eventfds that the program makes are those of the world
// (network.h): its clients and servers meet there, and nothing else is reached.
//
// The same seed gives the same execution, as long as the program asks nothing else for randomness
// or time, and begins in the same state: see apart(). A program whose threads all wait for ever, or
// that runs past `end`, has failed: the world prints the seed and what each thread waits for, and
// aborts.
//
// Thread safety: one world at a time in a process. The functions below are called within it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/picos.h"
#include "base/time.h"

namespace rubato::virt {

struct WorldOptions {
  uint64_t seed = 1;
  // Prices, on average; up to 1 ms. [world] of a cost file (sim/costs.h) has those that are Picos.
  Picos access = Nanos(8);         // an atomic access
  Nanos plain_access = Nanos(1);   // any other one to memory, exactly
  Picos clock_read = Nanos(20);
  Picos system_call = Nanos(400);
  Picos wake_up = Nanos::micros(3);  // from the call that wakes to the first step of the woken
  Picos pause = Nanos(40);           // cpu_pause()
  bool first_is_free = false;        // accesses and system calls of the first thread cost nothing

  // A thread that spins and finds nothing new goes on when another thread writes something, or
  // after this long; until then it is taken to go round as before. Saves nearly all the time that
  // idle workers take; what waits by the clock may be so much late. 0 = it goes round each time.
  Nanos spin_skip;

  // A thread may be so far ahead of the others when it reads, or writes in relaxed order: as if
  // what they write reached it so much later. Saves most changes of threads. 0 = in order of time.
  Nanos lead;

  // Threads that go round look at multiples of spin_skip, and of several whose clocks show the same
  // the running one goes on, then the one with the lowest number, the first thread last: where
  // nothing takes time, what a thread does until it waits or computes is one step. A thread that
  // spins for another would hang.
  bool in_step = false;

  // A fault happens at one in so many accesses or waits; 0 = never.
  uint32_t stall_one_in = 0;  // accesses
  Nanos stall_least = Nanos::micros(10);
  Nanos stall_most = Nanos::millis(50);
  uint32_t late_wake_up_one_in = 0;
  Nanos late_most = Nanos::millis(1);
  uint32_t spurious_wake_up_one_in = 0;
  uint32_t clock_jump_one_in = 0;  // readings; by as much as a stall takes
  // Stalls beside those, just before a thread writes what other threads read, and before accesses
  // that are not atomic, which other threads should not see half done. Short ones as many as long
  // ones, up to short_stall_most.
  uint32_t write_stall_one_in = 0;  // atomic writes
  uint32_t plain_stall_one_in = 0;  // other accesses
  // The same before one in so many of the places in the program that access atomics, drawn from the
  // seed: there at every second access, later at fewer. Finds what a stall must hit exactly.
  uint32_t stall_places_one_in = 0;
  Nanos place_stall_most = Nanos::millis(1);
  Nanos short_stall_most = Nanos::micros(100);

  // The network: how long bytes take, on average, and how many of a stream may be sent and unread.
  Nanos latency = Nanos::micros(10);
  size_t window = size_t{64} * 1024;
  uint32_t cut_one_in = 0;   // sends that move less than they could, or arrive in pieces
  uint32_t lose_one_in = 0;  // datagrams; as many arrive twice
  bool overtaking = true;    // of datagrams by others
  uint32_t no_descriptor_one_in = 0;  // connections that cannot be accepted for want of descriptors

  bool count_lines = false;  // cache lines that go from thread to thread; takes time

  Nanos end = Nanos::seconds(600);  // of virtual time: the program hangs
};

// Of all threads but the first, which plays what is around the program.
struct WorldCounts {
  uint64_t accesses = 0;        // atomic
  uint64_t plain_accesses = 0;  // others to memory; not counted where they cost nothing
  uint64_t calls = 0;           // of the system
  uint64_t wake_ups = 0;        // of waiting threads by others
  // With WorldOptions::count_lines, see line_counter.h.
  uint64_t lines_fetched = 0;
  uint64_t lines_taken = 0;
  uint64_t line_taken_most = 0;  // the same line by one thread after another
};

struct WorldReport {
  Instant ended;           // on the clock of the first thread
  WorldCounts counts;
  uint64_t switches = 0;   // from one thread to another
  uint64_t threads = 0;    // that there have been
  uint64_t stalls = 0;
  uint64_t digest = 0;     // of which thread ran when: equal for equal executions
};

// Runs `body` as the first thread of a new world. Returns when all threads of the world have ended.
WorldReport run(const WorldOptions& options, const std::function<void()>& body);

// Runs `body` in a process of its own, as the first thing that this process does: a world in it
// goes the same way whatever the caller did before. True = it returned true; false also where it
// did not return. If it is false, and a path is given, the last that the threads of the world did
// is written there, for Perfetto (ui.perfetto.dev) and chrome://tracing; with RUBATO_TRACE=FILE in
// the environment it is written to that file in any case. For processes of one thread.
bool apart(const std::function<bool()>& body, const std::string& trace = {});

// True on a thread of a world.
bool within();

// From now on one in so many calls of malloc, calloc, realloc, mmap and mprotect fails for want of
// memory, 0 = none. operator new does not fail.
void fail_memory(uint32_t one_in);

// Ends the program, which did what it should not: tells that, the seed and what each thread does.
[[noreturn]] void fail(const char* what);

// The number of the calling thread. They count from 0 in the order in which they are made.
uint32_t this_thread();
// Since when that thread waits, if nobody has woken it; otherwise never.
Instant waits_since(uint32_t thread);
// When the last stall or late wake-up of another thread, or jump of the clock, has ended or will
// end.
Instant others_stalled_until();

// The calling thread computes for so long.
void spend(Nanos time);
// It computes in up to `most` steps of `step`, both above 0, with a checkpoint after each but the
// last (mechanism/preempt/checkpoint.h): the caller makes that one. Ends before a checkpoint that
// is taken. Returns in how many steps.
int64_t spend_steps(Nanos step, int64_t most);
// The calling thread's clock; costs it no time.
Instant clock();

// What all stalls and late wake-ups so far take, of all threads, and when the last of them ends:
// no wait is longer for the world's sake.
Nanos faults_so_far();
Instant faults_over();
WorldCounts counts_so_far();

}  // namespace rubato::virt
