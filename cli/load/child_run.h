// SPDX-License-Identifier: Apache-2.0
//
// ChildRun: `rubato load` as a process of its own, which ends with this object at the latest, and
// with this thread. What it prints is kept in memory. One owner; for programs of one thread.
#pragma once

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

class ChildRun {
 public:
  // `args` follow `rubato load`. Fails with one line.
  static Result<ChildRun> start(const std::vector<std::string>& args);
  ChildRun(ChildRun&&) = default;
  ChildRun& operator=(ChildRun&&) = default;
  ~ChildRun();

  // Readable once the process has ended.
  int fd() const { return process_.get(); }
  // Requires that fd() is readable; once.
  RunEnd end();

 private:
  ChildRun() = default;

  load::Fd process_;  // a pidfd; not open = nothing is left to end
  load::Fd out_, err_;
};

}  // namespace rubato::cli
