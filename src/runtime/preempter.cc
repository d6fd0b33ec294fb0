// SPDX-License-Identifier: Apache-2.0
#include "runtime/preempter.h"

#include <algorithm>
#include <utility>

#include "mechanism/clock/clock.h"
#include "mechanism/preempt/checkpoint.h"
#include "mechanism/preempt/interposed.h"
#include "mechanism/preempt/preempt_disable.h"

namespace rubato {
namespace {

template <class T>
T or_fail(Result<T> made) {
  if (!made.ok()) check_failed(__FILE__, __LINE__, made.error().c_str());
  return std::move(*made);
}

}  // namespace

void Preempter::attach(InterruptTarget& target) {
  slice_.attach();
  if (!asynchronous_) return;
  line_ = or_fail(open_interrupt_line(mechanism_, target));
  if (mechanism_ == PreemptMechanism::kTimer) timer_ = or_fail(WorkerTimer::make());
}

void Preempter::detach() {
  timer_.reset();
  line_.reset();
}

void Preempter::interrupted_at_work() {
  if (timer_ != nullptr) timer_fired_.store(true, std::memory_order_relaxed);
  static_cast<void>(state().interrupt(false));
}

Answer Preempter::interrupted(bool may_leave) {
  if (timer_ != nullptr) {
    const Instant at = now();
    if (timer_expiry_ <= at) pace_.came(at - timer_expiry_);
    timer_went_off();
  }
  return state().interrupt(may_leave);
}

// All regions that the request has open are locks, for which others yield; what it waits for may be
// one of a suspended request.
bool Preempter::is_to_be_left(int64_t since_ns, uintptr_t pc, bool in_system_call) {
  if (stuck_.load(std::memory_order_relaxed) == 0) [[likely]] return false;
  const int64_t found = stuck_.exchange(0, std::memory_order_relaxed);
  if (found / 2 != since_ns || preempt_disable_depth() != 1 + interposed_locks_held()) return false;
  const bool loops = found % 2 != 0;
  return in_system_call || (loops && !is_async_signal_unsafe(pc));
}

bool Preempter::resume_application(CurrentWorker& current, bool may_leave) {
  RUBATO_DCHECK(asynchronous_);
  for (;;) {
    look_at_timer(may_leave);
    if (may_leave && state().take()) return false;
    if (state().is_wanted()) put_off();
    arm_timer();
    preempt_disable();
    current.enter_application();
    const bool again =
        (may_leave && state().is_wanted()) || timer_fired_.load(std::memory_order_relaxed);
    if (again) current.leave_application();
    preempt_enable_no_resched();
    if (!again) return true;
  }
}

// The worker's own timer requests the preemption. It may be early: it is not armed anew for every
// slice.
void Preempter::timer_went_off() {
  timer_fired_.store(false, std::memory_order_relaxed);
  timer_expiry_ = Instant::never();
  if (now() + kTimerSlack >= slice_.end()) static_cast<void>(state().request(state().look()));
}

// Handles a timer that went off while the runtime was at work, and a slice that is as good as over.
// Where it cannot end, another interrupt comes for it.
void Preempter::look_at_timer(bool may_leave) {
  if (timer_ == nullptr) return;
  if (may_leave && now() + kTimerSlack >= slice_.end()) return timer_went_off();
  if (!timer_fired_.load(std::memory_order_relaxed)) return;
  timer_fired_.store(false, std::memory_order_relaxed);
  timer_expiry_ = Instant::never();
}

// Arms the timer for the end of the running slice, or for the next try to end it. The request gets
// some time of a slice that the runtime's work has used up.
void Preempter::arm_timer() {
  if (timer_ == nullptr) return;
  const Instant at = now();
  Instant wanted = slice_.end();
  if (state().is_wanted()) {
    wanted = at + retry_;
    retry_ = std::min(retry_ * 2, kRetryMost);
  } else {
    if (state().look().phase() != PreemptPhase::kArmed) return;
    retry_ = kRetryFirst;
    if (wanted <= at + kTimerSlack) wanted = at + retry_;
  }
  wanted = std::max(wanted, at + pace_.shortest());
  if (timer_expiry_ != Instant::never() && timer_expiry_ <= wanted + kTimerSlack) return;
  timer_->arm(wanted - at);
  timer_expiry_ = wanted;
}

// Puts off the end of a slice that cannot end here.
void Preempter::put_off() {
  static_cast<void>(state().defer());
  set_preemption_pending();
  checkpoint_budget_set(0);
}

}  // namespace rubato
