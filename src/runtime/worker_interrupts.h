// SPDX-License-Identifier: Apache-2.0
//
// LiveWorker<P>, the part that is interrupted, gives way to holders of locks, and goes back into
// the application. Included by runtime/worker.h only.
//
// An interrupt is answered at once where the application may be left, and put off otherwise: while
// the runtime is at work, in a section, in code that must not be left half-way. What was put off is
// honoured on the way back into the application, at the end of the section, at the next checkpoint,
// or by the next try, whichever comes first (mechanism/preempt/state.h).
#pragma once

#include <algorithm>

#include "runtime/worker.h"

namespace rubato {

// On the worker's own thread, before its first fiber.
template <Policy P>
void LiveWorker<P>::attach() {
  own_thread_pointer_ = thread_pointer();
  if (!asynchronous_) {
    interposers_mark_thread(ThreadKind::kSharesIdentity);
    const bool lends = shared_.options.preempt == PreemptMechanism::kCheckpoint &&
                       interposers_attached() && Identity::available().ok();
    if (lends) identity_ = shared_.fibers.take_identity();
    return;
  }
  auto line = open_interrupt_line(shared_.options.preempt, *this);
  if (!line.ok()) check_failed(__FILE__, __LINE__, line.error().c_str());
  line_ = std::move(*line);
  if (shared_.options.preempt != PreemptMechanism::kTimer) return;
  auto timer = WorkerTimer::make();
  if (!timer.ok()) check_failed(__FILE__, __LINE__, timer.error().c_str());
  timer_ = std::move(*timer);
}

template <Policy P>
void LiveWorker<P>::detach() {
  interposers_mark_thread(ThreadKind::kPlain);
  timer_.reset();
  line_.reset();
  identity_.reset();
}

// In the handler, which has opened a section of its own.
template <Policy P>
void LiveWorker<P>::interrupted(uintptr_t pc) {
  if (!leave_application()) {
    if (timer_ != nullptr) timer_fired_.store(true, std::memory_order_relaxed);
    static_cast<void>(slice_.slot().state.interrupt(false));
    return;
  }
  const bool may_leave = section_depth() == 1 && !code_is_unsafe(pc);
  if (timer_ != nullptr) timer_went_off();
  const Answer answer = slice_.slot().state.interrupt(may_leave);
  if (answer == Answer::kDefer) ++stats_.preemptions_deferred;
  if (answer == Answer::kTake) {
    step();
    slice_over();
  }
  back_to_interruptible(may_leave && answer != Answer::kTake);
}

// The worker's timer asks on its own behalf. It may be early: it is not armed anew for every slice.
template <Policy P>
void LiveWorker<P>::timer_went_off() {
  timer_fired_.store(false, std::memory_order_relaxed);
  timer_expiry_ = Instant::never();
  PreemptState& state = slice_.slot().state;
  if (now() + kTimerSlack >= slice_.end()) static_cast<void>(state.request(state.look()));
}

// The slice shall end but cannot here.
template <Policy P>
void LiveWorker<P>::put_off() {
  static_cast<void>(slice_.slot().state.defer());
  section_set_pending();
  checkpoint_budget_set(0);
}

// It went off while the runtime was at work; or, if this `counts`, the slice is as good as over.
template <Policy P>
void LiveWorker<P>::look_at_timer(bool counts) {
  if (timer_ == nullptr) return;
  const bool over = counts && now() + kTimerSlack >= slice_.end();
  if (over || timer_fired_.load(std::memory_order_relaxed)) timer_went_off();
}

// For the slice that runs, or for the next try to end it.
template <Policy P>
void LiveWorker<P>::arm_timer() {
  if (timer_ == nullptr) return;
  const PreemptState& state = slice_.slot().state;
  const Instant at = now();
  Instant wanted = slice_.end();
  if (state.is_wanted()) {
    wanted = at + retry_;
    retry_ = std::min(retry_ * 2, kRetryMost);
  } else {
    if (state.look().phase() != PreemptPhase::kArmed) return;
    retry_ = kRetryFirst;
  }
  if (timer_expiry_ != Instant::never() && timer_expiry_ <= wanted + kTimerSlack) return;
  timer_->arm(wanted - at);
  timer_expiry_ = wanted;
}

// The last thing before code of the request goes on. May switch. `ended`: a slice was, on the way
// here.
template <Policy P>
void LiveWorker<P>::back_to_application(bool ended) {
  LiveWorker& worker = here();
  if (worker.asynchronous_) return back_to_interruptible(!ended && !in_section());
  worker.set_in_application(true);
}

// The same, where nothing has switched since the application was left.
template <Policy P>
void LiveWorker<P>::back_from_here() {
  if (asynchronous_) return back_to_interruptible(!in_section());
  set_in_application(true);
}

// One slice at most is ended per way back: where a slice is shorter than what it takes to begin
// one, the request would never get on. What is wanted beyond that is put off; so is what an
// interrupt wants that comes after the last look, and finds the section.
template <Policy P>
void LiveWorker<P>::back_to_interruptible(bool may_leave) {
  for (;;) {
    LiveWorker& worker = here();
    PreemptState& state = worker.slice_.slot().state;
    worker.look_at_timer(may_leave);
    if (may_leave && state.take()) {
      may_leave = false;
      worker.step();
      worker.slice_over();
      continue;
    }
    if (state.is_wanted()) worker.put_off();
    worker.arm_timer();
    section_enter();
    worker.set_in_application(true);
    const bool again = (may_leave && state.is_wanted()) ||
                       worker.timer_fired_.load(std::memory_order_relaxed);
    if (again) worker.set_in_application(false);
    section_leave_quietly();
    if (!again) return;
  }
}

// The count of open sections stays with the request: as thread-local storage of the identity that
// it has or keeps, or carried over.
template <Policy P>
bool LiveWorker<P>::yield_for_lock() {
  LoopFiber* to = keep_identity() ? take_fiber() : nullptr;
  if (to == nullptr) {
    ++stats_.preemptions_denied;
    back_to_application();
    return false;
  }
  ++stats_.lock_yields;
  publish_ = current_;
  publish_yielded_ = true;
  const uint32_t forbidden = std::exchange(forbidden_, 0);
  const bool carried = !asynchronous_ && !shares_identity();
  const uint32_t depth = carried ? section_exchange_depth(0) : 0;
  leave_request(to, step());
  if (carried) static_cast<void>(section_exchange_depth(depth));
  here().forbidden_ = forbidden;
  back_to_application();
  return true;
}

}  // namespace rubato
