// SPDX-License-Identifier: Apache-2.0
//
// The supervisor: a small process between a server and its best-effort command. It starts the
// command on what the server leaves, starts it again if it is to, measures it, and ends it and
// everything that it started when the server stops or dies, whatever kills the server: it notices
// by a pipe that only the server holds. It serves nobody else and sleeps in between.
//
// A process of its own because nobody else can do this: the kernel's own means, a signal at the
// death of the parent, reaches the command but not what the command started.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "host/idle_group.h"

namespace rubato {

// What the supervisor tells, in memory that it shares with the server. Written by the supervisor
// only, and relaxed: each figure stands for itself.
struct SupervisorStatus {
  enum State : uint32_t { kNotStarted, kRunning, kBetweenRuns, kOver };

  std::atomic<uint32_t> state{kNotStarted};
  std::atomic<uint32_t> starts{0};
  std::atomic<uint32_t> ends{0};
  std::atomic<int32_t> last_end{0};      // as waitpid tells it; of the last end
  std::atomic<int64_t> pause_ms{0};      // until the next start, in kBetweenRuns
  std::atomic<int64_t> cpu_ns{0};        // of the command and all it started, since the start
};

struct SupervisorOptions {
  std::string command;  // for the shell
  bool restart = false;
  std::optional<IdleGroup> group;  // else SCHED_IDLE alone
};

// The server's side. Destruction ends the command and waits for that.
class Supervisor {
 public:
  // Makes the process. Requires that the calling process has one thread. Fails with one line.
  static Result<Supervisor> fork(const SupervisorOptions& options);
  Supervisor(Supervisor&& other) noexcept;
  Supervisor& operator=(Supervisor&&) = delete;
  ~Supervisor();

  // Once: the command may start.
  void begin();

  const SupervisorStatus& status() const { return *status_; }
  pid_t pid() const { return pid_; }

 private:
  Supervisor(pid_t pid, int pipe, SupervisorStatus* status)
      : pid_(pid), pipe_(pipe), status_(status) {}

  pid_t pid_;
  int pipe_;  // -1 = moved away
  SupervisorStatus* status_;
};

}  // namespace rubato
