// SPDX-License-Identifier: Apache-2.0
//
// The supervisor: a small process between a server and its best-effort command. It starts the
// command on the CPU time that the server leaves, restarts it if so configured, measures it, and
// ends it with all its descendants when the server stops or dies, whatever kills the server: a pipe
// that only the server holds shows its end. The supervisor sleeps in between.
//
// It is a separate process because the kernel's own means, a signal at the death of the parent,
// reaches the command but not the processes that the command started.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "process/idle_group.h"

namespace rubato {

// The supervisor's report, in memory that it shares with the server. Only the supervisor writes it,
// with relaxed order: each figure stands for itself.
struct SupervisorStatus {
  enum State : uint32_t { kNotStarted, kRunning, kBetweenRuns, kOver };

  std::atomic<uint32_t> state{kNotStarted};
  std::atomic<uint32_t> starts{0};
  std::atomic<uint32_t> ends{0};
  std::atomic<int32_t> last_end{0};      // status of the last end, as waitpid gives it
  std::atomic<int64_t> pause_ms{0};      // until the next start, in kBetweenRuns
  std::atomic<int64_t> cpu_ns{0};        // of the command and its descendants, since the start
};

struct SupervisorOptions {
  std::string command;  // for the shell
  bool restart = false;
  std::optional<IdleGroup> group;  // else SCHED_IDLE alone
};

// The server's side. The destructor ends the command and waits for its end.
class Supervisor {
 public:
  // Makes the process. Requires that the calling process has one thread. Fails with one line.
  static Result<Supervisor> fork(const SupervisorOptions& options);
  Supervisor(Supervisor&& other) noexcept;
  Supervisor& operator=(Supervisor&&) = delete;
  ~Supervisor();

  // Lets the command start; called once.
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
