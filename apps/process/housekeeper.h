// SPDX-License-Identifier: Apache-2.0
//
// Housekeeper: the thread of a server that answers to its operator. SIGHUP loads the configuration
// again, SIGUSR1 has the log tell what the server does now. Once a second it logs the requests and
// connections that were refused, and workers that have been in one request for long, and accounts
// for the stacks of requests, which give back what they do not use if memory is short. It tells the
// service manager that the server is ready, reloads, stops, and, as long as a worker makes
// progress, that it lives. It waits for no worker, so it works while they are stuck.
//
// One at a time per process: signals are the process's. Made and destroyed by main's thread. A
// signal that is ignored (nohup) or handled already stays as it is.
#pragma once

#include <csignal>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/memory_account.h"
#include "base/result.h"
#include "datapath/datapath.h"
#include "datapath/tcp_socket.h"
#include "process/service_manager.h"
#include "runtime/runtime.h"

namespace rubato {

class Housekeeper {
 public:
  struct Hooks {
    std::function<void()> reload;                     // null = SIGHUP is told to be ignored
    std::function<std::string(uint32_t)> type_name;  // of requests; may be null
    // Told once a second what the stacks of requests take; the allocator keeps as its limit allows.
    MemoryAccount* memory = nullptr;
    std::function<void()> each_second;  // may be null
  };

  // Borrows its arguments. Fails if the system has no descriptor left.
  static Result<std::unique_ptr<Housekeeper>> start(Runtime& runtime, Datapath& datapath,
                                                    Hooks hooks);
  // Restores the earlier actions of the signals.
  ~Housekeeper();

  // An eventfd: who writes to it has this thread look at the runtime at once.
  int wake_fd() const { return wake_.get(); }
  // Clients are welcome.
  void ready() const { manager_.tell("READY=1"); }
  // The runtime has stopped: logs the last refusals and ends the thread. Signals do no harm still.
  void end();

 private:
  static constexpr std::array<int, 2> kHandled{SIGHUP, SIGUSR1};

  Housekeeper(Fd wake, Runtime& runtime, Datapath& datapath, Hooks hooks);
  void handle_signals();
  void keep();
  void wait();
  void reload();
  void look();
  void look_for_stop();
  void look_at_traffic();
  void look_at_memory();
  void look_for_changes(const RuntimeStats& before) const;
  void look_for_stalls(const std::vector<WorkerActivity>& workers);
  void beat(const std::vector<WorkerActivity>& workers) const;
  std::string name_of_type(uint32_t type) const;
  void log_state() const;
  void log_worker(uint32_t index, const WorkerActivity& worker) const;

  Fd wake_;
  Runtime& runtime_;
  Datapath& datapath_;
  const Hooks hooks_;
  const ServiceManager manager_;
  std::array<struct sigaction, kHandled.size()> before_{};
  // The thread's own.
  Nanos period_;
  Instant next_look_;
  RuntimeStats requests_;     // as they were at the last look
  DatapathStats flows_;       // likewise
  uint64_t limit_bytes_;      // of memory, for which the allocator is set
  std::vector<Nanos> report_at_;  // of each worker: the length of a stall that is told of next
  bool stop_reported_ = false;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace rubato
