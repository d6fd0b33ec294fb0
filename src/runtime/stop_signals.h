// SPDX-License-Identifier: Apache-2.0
//
// StopSignals: while the object lives, SIGTERM and SIGINT stop a runtime (which drains), and a
// second signal ends the process at once with status 1, as does a worker that outlives the drain
// limit by some seconds. Uses SIGALRM. SIGHUP, SIGUSR1 and SIGUSR2, which by default would kill the
// process and lose its data in memory, only write a line to the log, and SIGPIPE does nothing; a
// signal that has a handler already, or is ignored (nohup), stays as it is. One at a time per
// process, owned by the thread of main; the runtime outlives it.
#pragma once

#include <csignal>

#include <array>
#include <memory>

#include "base/result.h"
#include "runtime/runtime.h"

namespace rubato {

class StopSignals {
 public:
  // An eventfd that is told of each stop; -1 = none. Fails if a StopSignals exists already.
  static Result<std::unique_ptr<StopSignals>> install(Runtime& runtime, int notified = -1);
  // Restores the earlier actions of the signals.
  ~StopSignals();
  // As a first signal does, which may still come. Any thread.
  void stop() const;
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  static constexpr std::array<int, 4> kHarmless{SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE};

  StopSignals();
  void make_harmless();

  struct sigaction term_before_ {};
  struct sigaction int_before_ {};
  struct sigaction alarm_before_ {};
  std::array<struct sigaction, kHarmless.size()> harmless_before_{};
};

}  // namespace rubato
