// SPDX-License-Identifier: Apache-2.0
//
// Preempter: decides when the running request of one worker is to be preempted, and leads the
// worker back into the application. It owns the slice clock, the interrupt line and the worker's
// own timer.
//
// An interrupt is answered at once where the application may be left, and put off otherwise: while
// the runtime is at work, in a non-preemptible region, in code that must not be left half-way. A
// preemption that was put off is honoured on the way back into the application, at the end of the
// region, at the next checkpoint, or by the next try, whichever comes first
// (mechanism/preempt/state.h).
//
// The preempter says that a slice is to end; the worker ends it. Nothing here switches fibers, so
// `this` stays the running worker's through every call. Only at its very end resume_application()
// lets interrupts through again: the caller touches nothing of its worker after it has returned
// true.
//
// Used on the worker's thread, its handler included; the timer core also uses interrupt() and the
// slot of slice(). The handler may come between any two instructions: `timer_fired_` is all that it
// writes while the runtime is at work.
#pragma once

#include <atomic>
#include <memory>

#include "base/check.h"
#include "base/time.h"
#include "mechanism/preempt/mechanism.h"
#include "mechanism/preempt/timer.h"
#include "runtime/options.h"
#include "runtime/current_worker.h"
#include "runtime/interrupt_pace.h"
#include "runtime/slice_clock.h"

namespace rubato {

class Preempter {
 public:
  explicit Preempter(const RuntimeOptions& options)
      : mechanism_(options.preempt),
        asynchronous_(is_asynchronous(options.preempt)),
        slice_(watch_of(options)) {}

  // Called on the worker's own thread, before its first fiber; `target` is interrupted from now on.
  void attach(InterruptTarget& target);
  // Called on that thread, when no thread interrupts it any more.
  void detach();

  // True if requests may be interrupted at any instruction.
  bool asynchronous() const { return asynchronous_; }
  SliceClock& slice() { return slice_; }
  // False: the running request has no end of a slice, or interrupts that a timer core sends only
  // while another request waits.
  bool ends_slice() const {
    return slice_.end() != Instant::never() && (!asynchronous_ || timer_ != nullptr);
  }

  // Any thread, after the slice was seen armed.
  void interrupt() {
    RUBATO_DCHECK(line_ != nullptr);
    line_->send();
  }

  // Any thread, of a worker that has run one request since `since_ns`
  // (WorkerStats::busy_since_ns): asks it to leave that request if the kernel has it in a system
  // call, or, if it `loops`, wherever it may be left. It is interrupted by signals.
  void leave_if_stuck(int64_t since_ns, bool loops) {
    stuck_.store(since_ns * 2 + (loops ? 1 : 0), std::memory_order_relaxed);
    interrupt();
  }
  // Called in the handler, out of the application: is the request that has run since `since_ns` to
  // be left as stuck, and may it be (docs/decisions/020)?
  bool is_to_be_left(int64_t since_ns, uintptr_t pc, bool in_system_call);

  // Called in the handler: an interrupt came while the runtime was at work; the runtime checks for
  // it later.
  void interrupted_at_work();
  // Called in the handler, out of the application. kTake = the caller ends the slice.
  Answer interrupted(bool may_leave);

  // Asynchronous mechanisms: the last call before code of the request goes on. True: the context is
  // in the application. False: its slice is to end; the caller ends it, and calls again with
  // `may_leave` false. So at most one slice is ended per way back: if a slice is shorter than the
  // time it takes to begin one, the request would otherwise never make progress. A further
  // preemption is put off; so is that of an interrupt that comes after the last look, and finds the
  // region. A slice that begins here has not been the request's yet, whatever its timer says.
  bool resume_application(CurrentWorker& current, bool may_leave);

 private:
  // Between two tries to preempt a request where it must not be left.
  static constexpr Nanos kRetryFirst = Nanos::micros(50);
  static constexpr Nanos kRetryMost = Nanos::millis(1);
  // A timer that is this little early, or this little late for a new slice, is not armed anew.
  static constexpr Nanos kTimerSlack = Nanos::micros(2);

  static SliceWatch watch_of(const RuntimeOptions& options) {
    if (options.preempt == PreemptMechanism::kNone) return SliceWatch::kNobody;
    if (is_asynchronous(options.preempt)) return SliceWatch::kInterrupts;
    return options.preemption_clock == PreemptionClock::kSelf ? SliceWatch::kSelf
                                                              : SliceWatch::kTimerCore;
  }

  PreemptState& state() { return slice_.slot().state; }
  void timer_went_off();
  void look_at_timer(bool may_leave);
  void arm_timer();
  void put_off();

  const PreemptMechanism mechanism_;
  const bool asynchronous_;
  SliceClock slice_;
  std::unique_ptr<InterruptLine> line_;      // null unless asynchronous
  std::unique_ptr<WorkerTimer> timer_;       // null unless the worker has a timer of its own
  Instant timer_expiry_ = Instant::never();  // never = it is not armed
  Nanos retry_ = kRetryFirst;
  InterruptPace pace_;
  std::atomic<int64_t> stuck_{0};  // see leave_if_stuck(); 0 = nothing was found
  std::atomic<bool> timer_fired_{false};  // while the runtime was at work; handler and worker
};

}  // namespace rubato
