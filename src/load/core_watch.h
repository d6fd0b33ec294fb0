// SPDX-License-Identifier: Apache-2.0
//
// CoreWatch: notices when the machine keeps a core from the calling thread or from the threads of a
// server on this machine. It reads the counters of the kernel, not the latencies of requests:
//   * of the calling thread, if it never sleeps: the time that passed less the CPU time it got,
//     which counts other programs and, where the hypervisor tells, other machines;
//   * of each busy thread of the server, and of a calling thread that sleeps: the time it was ready
//     to run but did not (the second figure of /proc/PID/task/TID/schedstat), which counts other
//     programs only. A thread that sleeps does not wait, whatever work its policy leaves to it.
// One thread polls. Owns the open files. Times are since the `start` given.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "load/socket.h"
#include "load/stalls.h"

namespace rubato::load {

inline constexpr Nanos kWatchInterval = Nanos::millis(1);
inline constexpr size_t kMaxWatched = 256;  // threads of the server
// A thread of the server counts if it ran for at least this share of the busiest thread's time: a
// thread that sleeps behind a worker on its core waits for the worker, not for the machine.
inline constexpr double kBusyShare = 0.1;

// The first two figures of a schedstat file.
struct ScheduleTimes {
  Nanos ran, waited;
  int64_t turns = 0;  // times that the thread got a core
};

// Fails (false) on text that does not begin with three whole numbers.
bool parse_schedstat(std::string_view text, ScheduleTimes& times);

class CoreWatch {
 public:
  // `server` is a process id, 0 = none; `sleeps`: the calling thread does. Fails with one line if
  // the threads cannot be read.
  static Result<CoreWatch> open(uint32_t server, bool sleeps = false);

  // Takes the first reading.
  void begin();

  // Once: from now on only the threads of the server that were busy since begin() count.
  void keep_busy();

  // Appends the stalls since the last reading. Call it every kWatchInterval: this interval is the
  // precision of a stall's time, and each call costs a system call per thread.
  void poll(Nanos now, std::vector<Stall>& found);

  size_t server_threads() const { return threads_.size(); }

 private:
  struct Thread {
    Fd schedstat;
    Nanos ran;     // at begin()
    Nanos waited;  // at the last reading
  };

  CoreWatch() = default;

  static void note_wait(Thread& thread, Nanos last, Nanos now, std::vector<Stall>& found);

  std::vector<Thread> threads_;
  std::optional<Thread> self_;  // of a calling thread that sleeps
  Nanos last_, cpu_;
};

}  // namespace rubato::load
