// SPDX-License-Identifier: Apache-2.0
//
// BestEffort: a command that runs on the CPU time that a server leaves, and its share of that time.
// The server's threads get a core back as soon as they wake: the command is SCHED_IDLE, in a group
// of the kernel's CPU controller that is idle as a whole where one can be made (idle_group.h). A
// separate process supervises the command (supervisor.h).
//
// main calls prepare() before any thread starts, begin() and the destructor; any thread may call
// the other methods.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "metrics/open_metrics.h"
#include "process/supervisor.h"
#include "runtime/runtime.h"

namespace rubato {

struct BestEffortOptions {
  std::string command;   // for the shell; empty = none
  bool group = true;     // make a control group for it if that is possible
  bool restart = false;  // start it again when it has ended, after longer pauses if it ends soon
};

// A command that waits for Supervisor::begin.
struct BestEffortCommand {
  std::string command;
  std::string means;  // what keeps it back
  Supervisor supervisor;
};

// Fails with one line if the shell cannot run the command's first word. `name` tells the control
// groups of several commands apart. Requires that the calling process has one thread.
Result<BestEffortCommand> supervise(const BestEffortOptions& options, const std::string& name = "");

class BestEffort {
 public:
  // Shares are of the last kWindow, or since the command was begun.
  static constexpr Nanos kWindow = Nanos::seconds(10);

  // Fails with one line if the shell cannot run the command's first word.
  static Result<std::unique_ptr<BestEffort>> prepare(const BestEffortOptions& options);
  ~BestEffort();

  // Called once, when the server is ready.
  void begin(const Runtime& runtime);
  // Ends the use of the runtime. The command runs until the destructor.
  void end();

  using Lines = std::vector<std::pair<std::string, std::string>>;
  Lines lines() const;  // for INFO scheduler
  void expose(OpenMetrics& out) const;

  // The command's shares of the CPU time of the CPUs that the server may use.
  struct Shares {
    double of_machine = 0;  // of all the time
    double of_ideal = 0;    // of the time that requests left; 1 = all of it
  };
  Shares shares() const;

 private:
  // The CPU times of the command and of the requests at one moment.
  struct Sample {
    Nanos at;
    Nanos command;  // CPU time
    Nanos requests;
  };

  explicit BestEffort(BestEffortCommand command);
  void watch();
  void take_sample();
  void log_changes();

  Supervisor supervisor_;
  const std::string means_;
  const uint32_t cpus_;
  const Runtime* runtime_ = nullptr;
  uint32_t reported_ends_ = 0;  // of watch() only

  mutable std::mutex mutex_;  // guards the fields below
  std::condition_variable changed_;
  std::deque<Sample> samples_;
  bool stopping_ = false;
  std::thread watcher_;
};

}  // namespace rubato
