// SPDX-License-Identifier: Apache-2.0
//
// CoreClient: a server's side of a manager of cores (`rubato cores`). A thread of its own reports
// what the server's allocator would see and obeys the manager's orders (Runtime::manage_cores): a
// worker that is told to park does so as under the server's own allocator, so its connections are
// taken over by the proxy poller (runtime/core_parking.h). A quiet server reports less often.
//
// When the manager is gone, the server keeps what it has: its own allocator decides again, on as
// many cores at most, and the client looks for a manager once a second.
//
// Made and destroyed by main's thread. Borrows the runtime.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/time.h"
#include "metrics/counter.h"
#include "metrics/open_metrics.h"
#include "process/core_messages.h"
#include "runtime/runtime.h"

namespace rubato {

class CoreClient {
 public:
  // Requires an allocator. Fails with one line if no manager is there, or if it refuses, unless the
  // server `must_serve`: then it looks for one once a second.
  static Result<std::unique_ptr<CoreClient>> join(const std::string& path, Runtime& runtime,
                                                  bool must_serve);
  // The manager gives the cores to others.
  ~CoreClient();

  void expose(OpenMetrics& out) const;

 private:
  CoreClient(std::string path, Runtime& runtime);
  Status enter();
  bool enter_again();
  void serve(const std::stop_token& ending);
  void lose_manager();
  bool obey();
  void report();
  void wait(Nanos longest) const;

  const std::string path_;
  Runtime& runtime_;
  Fd wake_;
  // The thread's own, but for the counters.
  Fd manager_;
  CoreOrder order_;
  uint64_t obeyed_ = 0;
  std::string cause_;  // why it could not join again
  int64_t quiet_ = 1;  // times the interval until the next report
  std::atomic<bool> joined_{false};  // for expose(); relaxed
  Counter orders_;
  Counter reports_;
  Counter joins_;
  std::jthread thread_;
};

}  // namespace rubato
