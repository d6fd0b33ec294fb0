// SPDX-License-Identifier: Apache-2.0
//
// Application: the interface that an application implements, and the functions that its code may
// call while it runs a request. Everything here is called on a worker, from the fiber that runs the
// request.
#pragma once

#include <atomic>
#include <string_view>

#include "base/time.h"
#include "datapath/request.h"
#include "mechanism/preempt/checkpoint.h"

namespace rubato {

// A reply longer than this leaves in pieces of it, with a checkpoint after each.
inline constexpr size_t kReplyPieceBytes = size_t{16} * 1024;

// The measurements of a request that is done.
struct Completion {
  Nanos wait;                 // from arrival to its end, less service
  Nanos service;              // time on workers
  uint32_t preemptions = 0;
  uint32_t blocker_type = 0;  // type of the request that held the worker longest meanwhile
  Nanos blocker_service;      // how long that request held it; 0 = no particular one
};

class Application {
 public:
  virtual ~Application() = default;

  // Handles one request: append the reply to *request.reply. The call may be suspended at any
  // checkpoint and continue on another worker; it must not hold a lock across a checkpoint (see
  // NoPreempt).
  virtual void handle(Request& request) = 0;

  // The name of a type of requests, empty = it has none. The text outlives the runtime, and the
  // call is safe in a signal handler.
  virtual std::string_view name_of_type(uint32_t type) const {
    static_cast<void>(type);
    return {};
  }

  // Called for a request that is done and whose wait + service reached the slow threshold of the
  // runtime. Runs on the worker, before the reply leaves.
  virtual void slow(const Request&, const Completion&) {}
};

// Synergy 5.1: the paper's synergy_feedback_start and synergy_feedback_finished. From long_begin on
// the request may be preempted at checkpoints. `priority` 0 is the most urgent level (7.4). Without
// a current request both do nothing.
void long_begin(uint8_t priority = 0);
void long_end();

// Waits until `done`, which another thread sets when work is over that blocks in the kernel. Other
// requests run meanwhile; while there are none the worker sleeps, kWaitPause at a time. False: the
// reply is not wanted any more, and the work may still go on. Outside of a request it sleeps.
inline constexpr Nanos kWaitPause = Nanos::micros(50);
bool wait_for(const std::atomic<bool>& done);

// The request this worker is running, null outside of one.
Request* current_request();

// No preemption while one of these lives; a preemption that falls due meanwhile happens at the
// first checkpoint after the last one ends (the destructor checks).
void disable_preemption();
void enable_preemption();
class NoPreempt {
 public:
  NoPreempt() { disable_preemption(); }
  ~NoPreempt() { enable_preemption(); }
  NoPreempt(const NoPreempt&) = delete;
  NoPreempt& operator=(const NoPreempt&) = delete;
};

}  // namespace rubato
