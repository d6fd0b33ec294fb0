// SPDX-License-Identifier: Apache-2.0
//
// Reactor: ends waits whose time has come, and those for descriptors. One per runtime, served by
// the thread that runs the runtime and has nothing else to do, or, where workers live in their
// callers' loops, one per worker, which polls it. It opens its descriptors when the first wait
// needs them.
//
// Threads: serve() and poll() by one thread, the rest by any; not to be preempted within a call.
//
// Memory order: a lock guards all but `state_`, whose store to kUsed releases the descriptors to
// who acquires it, and `next_ns_`, which is a hint, relaxed.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "datapath/tcp_socket.h"
#include "runtime/waiter.h"

namespace rubato {

class Reactor {
 public:
  // The waiter is claimed by Wake::kTimeout at its deadline. False: no descriptors are left.
  bool add(Waiter& waiter, Instant deadline);
  // Its wait is over. Requires that it was added.
  void remove(Waiter& waiter);

  // The waiter is claimed by Wake::kWoken when one of the events (POLLIN and so on) of its
  // descriptor has come, or an error. Returns 0 or an errno; EPERM: files of this kind are always
  // ready.
  int watch(Waiter& waiter, int fd, uint32_t events);
  // Leaves in waiter.events those that have come.
  void unwatch(Waiter& waiter);

  // Until stop().
  void serve();
  // Any thread, any number of times.
  void stop();

  // For the caller's loop. Opens the descriptors; readable when poll() has something to do, -1 =
  // there are none left.
  int open_for_loop();
  void poll();

 private:
  enum class State : uint32_t { kUnused, kUsed, kStopped };
  using Watched = IntrusiveList<Waiter, &Waiter::queued>;

  bool open();
  bool goes_on(Instant& until);
  void wait_for_events(Instant until);
  int arm(int fd);
  void came(int fd, uint32_t events, Claimed& claimed);
  void fire();
  void set_alarm(Instant at);
  void clear_alarm();

  std::atomic<State> state_{State::kUnused};
  // When poll() looks at the timers next.
  std::atomic<int64_t> next_ns_{Instant::never().ns()};
  std::atomic<uint32_t> watching_{0};  // waiters with descriptors, relaxed, for poll()
  std::mutex lock_;
  TimerHeap<Waiter, &Waiter::timer> timers_;
  std::vector<Watched> watched_;  // by descriptor
  Instant sleeps_until_;          // of the thread in serve(); zero = it is awake
  bool in_loop_ = false;
  Fd epoll_;
  Fd alarm_;  // an eventfd, or for a loop a timerfd
};

}  // namespace rubato
