// SPDX-License-Identifier: Apache-2.0
//
// CurrentWorker: a worker as the code on its fibers sees it. A fiber may be suspended in any call
// marked "may switch" and continue on another worker, so no code keeps a CurrentWorker across such
// a call: ask current_worker() again. Where requests can be interrupted at any instruction, code
// keeps one only within a non-preemptible region (mechanism/preempt/preempt_disable.h).
//
// A context is in the application while code of a request runs, from the return of recv to the next
// call into the runtime; only then may that request be switched away from.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/ids.h"
#include "datapath/request.h"
#include "mechanism/preempt/preempt_disable.h"

namespace rubato {

class Application;
class FiberScheduler;
class WaitPort;
class Waiter;

class CurrentWorker {
 public:
  CurrentWorker(WorkerId worker, const Application& application)
      : worker_(worker), application_(application) {}
  virtual ~CurrentWorker() = default;

  WorkerId worker() const { return worker_; }
  const Application& application() const { return application_; }

  // The next request for the calling fiber; null = the runtime is stopping. May switch.
  virtual Request* recv() = 0;
  // The request is done and its reply appended.
  virtual void send(Request& request) = 0;
  // Calls out of the application, see leave_application(); they return to it. They may switch.
  // `off_checkpoint`: not at a checkpoint, but at the end of any non-preemptible region. True: the
  // request is to end as soon as it can.
  virtual bool checkpoint_slow(bool off_checkpoint) = 0;
  // `stuck`: in the handler of an interrupt, for a request that did not ask for it itself.
  virtual bool yield_for_lock(bool stuck) = 0;
  // The current request gives the worker away until `waiter` is delivered. False: nothing was done,
  // for there is no fiber to go on with.
  virtual bool park(Waiter& waiter) = 0;
  // The current request is told to end, if it is to, by its next checkpoint at the latest.
  virtual void end_current() = 0;
  virtual void long_begin(uint8_t priority) = 0;
  virtual void long_end() = 0;
  // The running fiber is its.
  virtual FiberScheduler& fibers() = 0;
  virtual WaitPort& waits() = 0;

  Request* current() const { return current_; }
  void begin_request(Request& request) {
    RUBATO_DCHECK(current_ == nullptr && preempt_disabled_ == 0);
    current_ = &request;
  }
  // The reply leaves; non-preemptible regions that the request has left open are closed.
  void end_request() {
    current_ = nullptr;
    if (preempt_disabled_ > 0) {
      exchange_preempt_depth(preempt_disable_depth() - std::exchange(preempt_disabled_, 0));
    }
  }

  // Opens a non-preemptible region of the request, which ends with the request at the latest. The
  // caller is in a region already.
  void disable_preemption() {
    ++preempt_disabled_;
    preempt_disable();
  }
  // False: no region is open. True: the caller has to leave it.
  bool enable_preemption() {
    if (preempt_disabled_ == 0) return false;
    RUBATO_DCHECK(preempt_disable_depth() > preempt_disabled_);
    --preempt_disabled_;
    return true;
  }

  // Takes the context out of the application until the runtime has done its work. True if it was in
  // the application.
  bool leave_application() {
    const bool was = in_application_.load(std::memory_order_relaxed);
    set_in_application(false);
    return was;
  }
  bool in_application() const { return in_application_.load(std::memory_order_relaxed); }
  // The runtime has done its work: the last call before code of the request goes on.
  void enter_application() { set_in_application(true); }

 protected:
  Request* current_ = nullptr;
  uint32_t preempt_disabled_ = 0;  // non-preemptible regions of the current request

 private:
  // Read by handlers on the worker's own thread only: the fences bind the compiler only.
  void set_in_application(bool value) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    in_application_.store(value, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  const WorkerId worker_;
  const Application& application_;
  std::atomic<bool> in_application_{false};
};

// The context of the calling thread, null off the workers. Never inlined: a fiber that moved to
// another thread must not see an address that the compiler has kept from the thread before.
CurrentWorker* current_worker();
// Also makes the thread its worker for this_worker().
void set_current_worker(CurrentWorker* worker);

// If the caller is code of a request, takes its context out of the application and returns it; null
// elsewhere. It does so in a non-preemptible region, so that the request is not moved to another
// context between the look and the mark.
CurrentWorker* leave_application();

// Handles the current request on the worker's own thread: its stack and its thread-local storage,
// for code that keeps account of threads itself. Nothing there is preempted or yields. The server
// loop calls it, which sends the request next.
void handle_on_thread(Application& application, Request& request);

// Directs checkpoints, non-preemptible regions and locks to the contexts. Called once, before the
// first worker runs.
void install_worker_hooks();

}  // namespace rubato
