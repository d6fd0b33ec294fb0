// SPDX-License-Identifier: Apache-2.0
//
// ChildRun: `rubato load --part` as a process of its own, which ends with this object at the
// latest, and with this thread. What it prints is kept in memory. On its stdin, a socket, it gets
// what may not stand in its arguments, says when it is ready and waits until it may begin. One
// owner; for programs of one thread.
#pragma once

#include <csignal>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/socket.h"

namespace rubato::cli {

// How a run ended.
struct RunEnd {
  int status = 0;      // as a shell tells it; 128 + signal
  std::string said;    // its last line on stderr
  std::string report;  // on stdout
};

// What a part of a run tells of itself, in this order.
enum class PartEvent : uint8_t { kNothing, kReady, kEnded };

class ChildRun {
 public:
  // `args` follow `rubato load --part`. Fails with one line.
  static Result<ChildRun> start(const std::vector<std::string>& args, const std::string& password);
  ChildRun(ChildRun&&) = default;
  ChildRun& operator=(ChildRun&&) = default;
  ~ChildRun();

  // Readable once there is something to look at. It changes with each event.
  int fd() const { return ready_ ? process_.get() : link_.get(); }
  // Requires that fd() is readable. kReady: its connections stand. kEnded, once: `end` says how.
  PartEvent look(RunEnd& end);
  // It may send its first request. Requires kReady.
  void go();
  // It is to end as soon as it can, with a report if it has anything to report.
  void interrupt();

 private:
  ChildRun() = default;
  RunEnd end();

  load::Fd process_;  // a pidfd; not open = nothing is left to end
  load::Fd link_;     // to its stdin
  load::Fd out_, err_;
  bool ready_ = false;
};

// The side of the child: a part of a run whose stdin is such a socket.
//
// Reads the password that the generator is to use. Fails with one line.
Result<std::string> read_part_password();
// Says that the part is ready and waits until it may begin. Fails with one line if it may not, or
// at `*stop`.
Status await_go(const volatile std::sig_atomic_t* stop);

}  // namespace rubato::cli
