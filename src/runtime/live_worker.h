// SPDX-License-Identifier: Apache-2.0
//
// LiveWorker<P>: one worker thread of the live host. It takes in requests, asks the policy for the
// next one and runs it on a reused fiber (Synergy 5.2.2). Short requests run on the fiber that
// called recv(), without a switch; a preempted request keeps its fiber, and the worker goes on with
// a parked or a new one; resuming switches straight into the request's fiber. Its parts:
//
//   intake_      Intake          polls, admits, takes over requests of stuck workers
//   core_        sched::Core     decides about requests, by the policy
//   fibers_      FiberScheduler  loop fibers, and the switches between them
//   preempter_   Preempter       slices, interrupts, the way back into the application
//   idle_        IdleLoop        spins, helps, sleeps, gives its core away
//   context_     WorkerContext   what the parts share: queues, time, counters
//
// Everything here runs on the worker's thread, except context() and preempter(), whose comments say
// which threads may call them.
//
// The contract of a switch (runtime/fiber_scheduler.h). A member function marked "may switch" can
// return on another worker's thread. From the switch on `this` is the worker that was left: the
// function looks the running one up by here() and touches nothing else. Handlers may interrupt code
// of the application at any instruction and switch there too; they find the runtime at work from
// CurrentWorker::leave_application to back_to_application, and switch nothing then.
#pragma once

#include <optional>
#include <utility>

#include "base/check.h"
#include "mechanism/fiber/overflow.h"
#include "mechanism/preempt/signal.h"
#include "policy/archetype.h"
#include "runtime/fiber_scheduler.h"
#include "runtime/idle_loop.h"
#include "runtime/intake.h"
#include "runtime/live_platform.h"
#include "runtime/preempter.h"
#include "runtime/current_worker.h"
#include "runtime/waiter.h"
#include "runtime/worker_context.h"

namespace rubato {

inline sched::CoreOptions core_options(const RuntimeOptions& options) {
  sched::CoreOptions core{
      .classify = options.classify, .refusal_rule = {}, .weights = options.groups};
  if (options.refuses_late()) core.refusal_rule = options.refusal_rule;
  return core;
}

template <Policy P>
class LiveWorker final : public CurrentWorker, private InterruptTarget {
 public:
  LiveWorker(RuntimeState<P>& shared, WorkerId id, Records records)
      : CurrentWorker(id, shared.application),
        context_(shared, *this, records),
        preempter_(shared.options),
        fibers_(shared.fibers, &fiber_main, &shared, *this, preempter_.slice(),
                shared.options.preempt),
        intake_(context_, core_),
        idle_(context_, core_, intake_),
        core_(shared.policy, core_options(shared.options),
              LivePlatform<P>(context_, intake_, preempter_.slice())) {}

  // The counters; any thread.
  const WorkerContext<P>& context() const { return context_; }
  // For the timer core, to interrupt the worker.
  Preempter& preempter() { return preempter_; }

  // Called before the first worker runs. False: there is no memory for its stack.
  bool prepare() { return fibers_.prepare(); }

  // The thread's main function: returns when the runtime has stopped. Call detach() when no thread
  // interrupts the worker any more. False: the datapath lends the thread (DatapathQueue::recalls),
  // and the next call, on the same thread, goes on.
  [[gnu::noinline]] bool run() {
    set_current_worker(this);
    if (!for_overflows_) {
      for_overflows_.emplace();
      install_worker_hooks();
      fibers_.attach();
      preempter_.attach(*this);
      intake_.start();
    }
    const bool ended = fibers_.run();
    set_current_worker(nullptr);
    if (ended) for_overflows_.reset();
    return ended;
  }

  void detach() {
    preempter_.detach();
    fibers_.detach();
  }

  // ---- The loop -------------------------------------------------------------------------------

  // May switch.
  Request* recv() override { return recv_here(); }

  void send(Request& request) override {
    RUBATO_DCHECK(&request == current_);
    const Instant handled = context_.step();
    ServiceMeter& meter = context_.meter;
    meter.charge_loss(Nanos::max(), handled);
    preempter_.slice().stop();
    context_.tracer.slice(request, handled, Trace::End::kFinished);
    const Nanos service = request.attained + meter.stop(request, handled);
    core_.finish(request, service, meter.lost());
    intake_.wake_pushed();
  }

  FiberScheduler& fibers() override { return fibers_; }
  WaitPort& waits() override { return context_.waits; }

  // ---- From the application -------------------------------------------------------------------

  // May switch.
  bool checkpoint_slow(bool off_checkpoint) override {
    if (preemption_disabled() || (preempter_.asynchronous() && on_signal_stack())) {
      set_preemption_pending();
      checkpoint_budget_set(kCheckpointNever);
      back_to_application(*this, false);
      return false;
    }
    RUBATO_DCHECK(current_ != nullptr);
    Request& request = *current_;
    const bool over = preempter_.slice().over(context_.step());
    over ? slice_over(off_checkpoint) : intake_.push_if_late();
    LiveWorker& worker = here();
    const bool ends = worker.is_to_end(request, off_checkpoint);
    back_to_application(worker, !over);
    return ends;
  }

  // The current request waits for a lock, or is taken to (`stuck`). The count of open
  // non-preemptible regions stays with it: in the TLS block that it has or keeps, or carried over.
  // May switch.
  bool yield_for_lock(bool stuck) override {
    RUBATO_DCHECK(current_ != nullptr);
    const TlsReserve::LeftInside left_inside(context_.shared.fibers.tls_reserve());
    LoopFiber* to = fibers_.keep_tls() ? fibers_.take() : nullptr;
    if (to == nullptr) {
      ++context_.stats.preemptions_denied;
      if (stuck) core_.start_slice(*current_);
      back_to_application(*this);
      return false;
    }
    RUBATO_DCHECK(preempt_disable_depth() >= preempt_disabled_);
    ++context_.stats.lock_yields;
    if (stuck) ++context_.stats.stuck_left;
    const uint32_t forbidden = std::exchange(preempt_disabled_, 0);
    const bool carried = !preempter_.asynchronous() && !fibers_.shares_tls();
    const uint32_t depth = carried ? exchange_preempt_depth(0) : 0;
    leave_request(*to, context_.step(), {current_, stuck ? LeftFor::kStuck : LeftFor::kLock});
    if (carried) static_cast<void>(exchange_preempt_depth(depth));
    LiveWorker& worker = here();
    worker.preempt_disabled_ = forbidden;
    back_to_application(worker, false);
    return true;
  }

  // The current request waits until `waiter` is delivered. As at a checkpoint, any TLS block will
  // do afterwards; the count of open non-preemptible regions is carried over where it is in a block
  // that stays here. May switch.
  bool park(Waiter& waiter) override {
    RUBATO_DCHECK(current_ != nullptr);
    fibers_.share_tls_again();
    LoopFiber* const to = fibers_.take();
    if (to == nullptr) {
      ++context_.stats.preemptions_denied;
      back_to_application(*this);
      return false;
    }
    ++context_.stats.waits;
    waiter.set_home(context_.waits);
    waiter.let_go();
    const uint32_t forbidden = std::exchange(preempt_disabled_, 0);
    const bool carried = !preempter_.asynchronous();
    const uint32_t depth = carried ? exchange_preempt_depth(0) : 0;
    leave_request(*to, context_.step(), {current_, LeftFor::kWait, &waiter});
    if (carried) static_cast<void>(exchange_preempt_depth(depth));
    LiveWorker& worker = here();
    worker.preempt_disabled_ = forbidden;
    back_to_application(worker, false);
    return true;
  }

  void end_current() override {
    context_.step();
    if (core_.cancels(*current_)) checkpoint_budget_set(0);
    back_to_application(*this);
  }

  void long_begin(uint8_t priority) override {
    Request& request = *current_;
    if (core_.mark_long(request, priority)) {
      request.datapath->flush(request);
      context_.datapath.push();
      context_.step();
      core_.start_slice(request);
    }
    back_to_application(*this);
  }

  // The rest is short again: it runs to the end, unless age says otherwise. The request stays
  // marked, as its service time says nothing about short ones.
  void long_end() override {
    const bool timed = by_age(context_.shared.options.classify);
    if (!timed) preempter_.slice().start_without_end(context_.host.now());
    back_to_application(*this);
  }

 private:
  using LeftFor = FiberScheduler::LeftFor;

  // A request that does not end when told to is told again after so many checkpoints.
  static constexpr int32_t kCancelAgain = 64;
  // The interval at which a running request checks whether its client is still connected.
  static constexpr Nanos kClientLook = Nanos::millis(1);

  // The worker of the calling thread.
  static LiveWorker& here() { return static_cast<LiveWorker&>(*current_worker()); }

  // A loop fiber: runs the server loop until recv() says that the runtime has stopped. May switch.
  static void fiber_main(void* argument) {
    auto* self = static_cast<LoopFiber*>(argument);
    fiber_entered(self->fiber);
    here().after_switch();
    static_cast<RuntimeState<P>*>(self->runtime)->server_loop();
    here().fibers_.finish(*self);
  }

  // One round per request that is resumed or refused, or per look that finds no request. Each round
  // may begin on another worker.
  static Request* recv_here() {
    here().fibers_.share_tls_again();
    for (;;) {
      LiveWorker& worker = here();
      WorkerContext<P>& context = worker.context_;
      if (context.stopping()) {
        context.datapath.push();
        return nullptr;
      }
      worker.intake_.poll_if_due();
      if constexpr (kDispatches<P>) context.shared.central.dispatch(context.host.now());
      if constexpr (kManages<P>) context.shared.managers.step_for(context.id, context.host.now());
      Request* request = worker.core_.next();
      if (request == nullptr) {
        worker.core_.ran_out();
        request = worker.idle_.idle();
        if (request == nullptr) continue;
      }
      worker.idle_.found_work();
      if (request->fiber != nullptr) {
        context.datapath.push();
        worker.resume(*request);
      } else if (worker.core_.start(*request)) {
        if (worker.may_run_long(*request)) context.datapath.push();
        back_to_application(worker, false);
        return request;
      }
    }
  }

  // ---- Slices ---------------------------------------------------------------------------------

  // A request has got its slice. Replies of those before it do not wait for it if it is long, or if
  // no end of a slice sends them.
  bool may_run_long(const Request& request) {
    return request.job_class == JobClass::kLong || !preempter_.ends_slice();
  }

  // The slice of the current request has ended. May switch.
  [[gnu::noinline]] void slice_over(bool off_checkpoint = false) {
    RUBATO_DCHECK(current_ != nullptr);
    Request& request = *current_;
    // At the end of its first slice: replies of those before it wait no longer for it. An interrupt
    // may have come while it appends to its own.
    const bool may_flush = !off_checkpoint && !preempter_.asynchronous();
    if (may_flush && request.attained == Nanos()) request.datapath->flush(request);
    context_.datapath.push();
    const Instant at = context_.host.now();
    context_.stats.overrun.record(at - preempter_.slice().end());
    if (!off_checkpoint && slice_was_lost()) return;  // elsewhere: already put off
    const Nanos service = context_.meter.attained(request, context_.host.now());
    if (core_.expire(request, service)) return preempt(off_checkpoint);
    ++context_.stats.preemptions_avoided;
    context_.tracer.avoided();
    if (request.cancelled) checkpoint_budget_set(0);
  }

  // A slice is CPU time: time that the operating system gave to other threads does not count. True
  // = the request has not had its quantum, and gets the rest; arrivals are taken in.
  [[gnu::noinline]] bool slice_was_lost() {
    SliceClock& slice = preempter_.slice();
    ServiceMeter& meter = context_.meter;
    const Instant due = slice.due();
    const Instant at = context_.host.now();
    if (at - due < ServiceMeter::kSuspicious) return false;
    const Nanos lost = meter.charge_loss(at - due + slice.quantum(), at);
    if (due + lost <= at) return false;
    intake_.ingest(context_.datapath);
    const Instant later = context_.host.now();
    slice.extend(due + lost, later, *current_, meter.attained(*current_, later));
    return true;
  }

  // The slice of the request may not have ended, and its worker not polled, for long; so the
  // request itself looks at its client. Off a checkpoint it cannot be told to end: the next
  // checkpoint tells it.
  bool is_to_end(Request& request, bool off_checkpoint) {
    const Instant at = context_.host.now();
    if (at - last_client_look_ > kClientLook) {
      last_client_look_ = at;
      request.datapath->look_at_client(request);
    }
    if (!core_.cancels(request)) return false;
    checkpoint_budget_set(off_checkpoint ? 0 : kCancelAgain);
    return true;
  }

  // ---- Switches -------------------------------------------------------------------------------

  // The current request gives the worker away, if there is a fiber to go on with. May switch.
  void preempt(bool off_checkpoint) {
    Instant at = context_.host.now();
    if (!off_checkpoint) fibers_.share_tls_again();
    LoopFiber* to = !off_checkpoint || fibers_.keep_tls() ? fibers_.take() : nullptr;
    if (to == nullptr) {
      ++context_.stats.preemptions_denied;
      return core_.start_slice(*current_);
    }
    ++context_.stats.preemptions;
    // Else the request, put back into the worker's own queue, would go on at once.
    if (context_.datapath.recalls()) intake_.poll_next();
    if (off_checkpoint) at = context_.step();  // a TLS block may have been made
    leave_request(*to, at, {current_, LeftFor::kOthers});
  }

  // The current request is left where it is, for `to`. Switches; returns when it is resumed.
  void leave_request(LoopFiber& to, Instant at, const FiberScheduler::Left& left) {
    Request& request = *std::exchange(current_, nullptr);
    preempter_.slice().stop();
    const bool cut = left.what == LeftFor::kOthers;
    context_.tracer.slice(request, at, cut ? Trace::End::kPreempted : Trace::End::kYielded);
    request.attained += context_.meter.stop(request, at);
    context_.meter.leave();
    fibers_.leave_for(to, left);
    here().after_switch();
  }

  // The request goes on, on its own fiber. Switches; returns when this fiber is next in recv().
  void resume(Request& request) {
    RUBATO_DCHECK(current_ == nullptr);
    auto& to = *static_cast<LoopFiber*>(std::exchange(request.fiber, nullptr));
    ++context_.stats.resumed;
    LoopFiber& from = fibers_.park_and_turn_to(to);
    static_cast<void>(core_.start(request));  // a request that has started is not refused
    fibers_.switch_from(from);
    here().after_switch();
  }

  // The first call on every fiber that is switched to: does the work that the previous fiber could
  // not do while it was still on its own stack. Making a fiber with a TLS block takes long, so time
  // is read again, otherwise the next slice would begin too early.
  void after_switch() {
    if (preempter_.asynchronous()) context_.step();
    const FiberScheduler::Left left = fibers_.settle();
    if (left.request == nullptr) return;
    if (left.what == LeftFor::kOthers) return static_cast<void>(core_.requeue(*left.request));
    if (left.what == LeftFor::kWait) {
      core_.leaves(*left.request);
      if (left.waiter->settle() || !left.waiter->has_again()) return;
      intake_.take_back(*left.request);
      return;
    }
    core_.wait_for_lock(*left.request, left.what == LeftFor::kStuck);
  }

  // ---- Interrupts, and the way back into the application --------------------------------------

  // Called in the handler, which has opened a non-preemptible region of its own. May switch.
  void interrupted(uintptr_t pc, bool in_system_call) override {
    if (!leave_application()) return preempter_.interrupted_at_work();
    const bool may_leave = preempt_disable_depth() == 1 && !is_async_signal_unsafe(pc);
    const Answer answer = preempter_.interrupted(may_leave);
    if (answer == Answer::kDefer) ++context_.stats.preemptions_deferred;
    if (answer == Answer::kTake) {
      context_.step();
      slice_over();
    }
    // The policy comes first. A request that it did not preempt is here as before.
    LiveWorker& worker = here();
    const int64_t since = worker.context_.meter.busy_since();
    if (worker.preempter_.is_to_be_left(since, pc, in_system_call)) [[unlikely]] {
      return static_cast<void>(worker.yield_for_lock(true));
    }
    back_to_interruptible(worker, may_leave && answer != Answer::kTake);
  }

  // The last call before code of the request goes on, on the running worker. `may_end`: no slice
  // ended or began on the way here. May switch.
  [[gnu::always_inline]] static void back_to_application(LiveWorker& worker, bool may_end = true) {
    if (!worker.preempter_.asynchronous()) return worker.enter_application();
    back_to_interruptible(worker, may_end && !preemption_disabled());
  }

  [[gnu::noinline]] static void back_to_interruptible(LiveWorker& worker, bool may_leave) {
    if (worker.preempter_.resume_application(worker, may_leave)) return;
    worker.context_.step();
    worker.slice_over();
    LiveWorker& now_here = here();
    static_cast<void>(now_here.preempter_.resume_application(now_here, false));
  }

  WorkerContext<P> context_;  // first: tools/gdb/rubato.py finds the RuntimeState in it
  Preempter preempter_;
  FiberScheduler fibers_;
  Intake<P> intake_;
  IdleLoop<P> idle_;
  LiveCore<P> core_;
  Instant last_client_look_;
  std::optional<SignalStack> for_overflows_;  // of the thread
};

}  // namespace rubato
